// Counts what the topics of a cluster want for, page by page.
import type { PartitionMetadata, TopicMetadata } from "../../wire/native/apis.ts";
import { stateOfPartition } from "../partition-state.ts";
import type { NodeShare, TopicTally } from "./observation.ts";

const EXAMPLES_MAX = 10;

class Trouble {
  count = 0;
  readonly examples: string[] = [];

  add(what: string): void {
    this.count++;
    if (this.examples.length < EXAMPLES_MAX) this.examples.push(what);
  }
}

interface Share {
  leaders: number;
  replicas: number;
  inSync: number;
}

export class TopicCounter {
  #topics = 0;
  #partitions = 0;
  readonly #offline = new Trouble();
  readonly #lost = new Trouble();
  readonly #belowMinIsr = new Trouble();
  readonly #underReplicated = new Trouble();
  readonly #faulty = new Trouble();
  readonly #shares = new Map<number, Share>();

  add(topic: TopicMetadata): void {
    this.#topics++;
    for (const partition of topic.partitions) {
      this.#partitions++;
      this.#share(partition.leader).leaders++;
      for (const nodeId of partition.replicas) this.#share(nodeId).replicas++;
      for (const nodeId of partition.isr) this.#share(nodeId).inSync++;
      if (topic.isDeleting) continue;
      this.#judge(partition, `${topic.name}-${partition.index}`);
    }
  }

  #judge(partition: PartitionMetadata, name: string): void {
    const { error, isr, minIsr, replicas } = partition;
    switch (stateOfPartition(partition)) {
      case "leaderless":
        return this.#offline.add(name);
      case "lost":
        return this.#lost.add(name);
      case "faulty":
        return this.#faulty.add(`${name} (${error})`);
      case "below-min-isr":
        return this.#belowMinIsr.add(`${name} (${isr.length} in sync, ${minIsr} needed)`);
      case "under-replicated":
        return this.#underReplicated.add(`${name} (${isr.length} of ${replicas.length} replicas in sync)`);
      case "ok":
        return;
    }
  }

  get tally(): TopicTally {
    const shares = new Map<number, NodeShare>(this.#shares);
    shares.delete(-1);
    return {
      topics: this.#topics,
      partitions: this.#partitions,
      offline: this.#offline,
      lost: this.#lost,
      belowMinIsr: this.#belowMinIsr,
      underReplicated: this.#underReplicated,
      faulty: this.#faulty,
      shares,
    };
  }

  #share(nodeId: number): Share {
    const known = this.#shares.get(nodeId);
    if (known !== undefined) return known;
    const fresh = { leaders: 0, replicas: 0, inSync: 0 };
    this.#shares.set(nodeId, fresh);
    return fresh;
  }
}
