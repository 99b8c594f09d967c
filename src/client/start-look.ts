// Where partitions start and end that a consumer is to read: each leader is asked by itself, and each partition begins when its own answer is there.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import type { TopicMetadata } from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ConsumerPartition } from "./consumer-partition.ts";
import type { ClientContext } from "./context.ts";
import { answerTimeoutMs } from "./fetch-source.ts";
import { askStarts, type Start, STARTS_MAX } from "./offset-lookup.ts";

export interface StartWorld {
  readonly partitions: readonly ConsumerPartition[];
  leaderOf(
    partition: ConsumerPartition,
  ): { readonly link: BrokerLink; readonly topic: Pick<TopicMetadata, "topicId"> } | undefined;
  heard(partition: ConsumerPartition): void;
  asked(partition: ConsumerPartition): void;
  /** Without an error: nobody leads it. */
  refused(partition: ConsumerPartition, error?: OttlaError): void;
  onProgress(): void;
  fail(error: OttlaError): void;
}

export class StartLook {
  readonly #context: ClientContext;
  readonly #world: StartWorld;

  constructor(context: ClientContext, world: StartWorld) {
    this.#context = context;
    this.#world = world;
  }

  lookUp(): void {
    const groups = new Map<BrokerLink, ConsumerPartition[]>();
    for (const partition of this.#world.partitions) {
      if (!partition.needsLookUp || partition.isResolving || partition.isBlocked) continue;
      const link = this.#world.leaderOf(partition)?.link;
      if (link === undefined) {
        this.#world.refused(partition);
        continue;
      }
      const group = groups.get(link);
      if (group === undefined) groups.set(link, [partition]);
      else group.push(partition);
    }
    for (const [link, group] of groups) {
      for (let from = 0; from < group.length; from += STARTS_MAX) this.#ask(link, group.slice(from, from + STARTS_MAX));
    }
  }

  #ask(link: BrokerLink, partitions: readonly ConsumerPartition[]): void {
    const versions = partitions.map((partition) => partition.version);
    const starts = partitions.map((partition) => ({
      topic: partition.topic,
      topicId: this.#world.leaderOf(partition)?.topic.topicId as TopicId,
      partition: partition.index,
      from: partition.start,
      wantsEnd: partition.wantsEnd && partition.endOffset === undefined,
    }));
    for (const partition of partitions) {
      partition.isResolving = true;
      this.#world.asked(partition);
    }
    const take = (results: readonly (Start | OttlaError)[]) => {
      for (const [at, partition] of partitions.entries()) {
        const result = results[at];
        if (partition.version === versions[at] && result !== undefined) this.#take(partition, result);
      }
      this.#world.onProgress();
    };
    // To count records takes time, and is no silence.
    const onCounting = (at: number) => {
      const partition = partitions[at];
      if (partition === undefined || partition.version !== versions[at]) return;
      // Not heard(): batches that stay damaged are to be given up in the end.
      partition.waitingSinceMs = undefined;
      this.#world.asked(partition);
    };
    const timeoutMs = answerTimeoutMs(partitions);
    askStarts(this.#context, { link, starts, timeoutMs, onCounting }).then(take, (error: unknown) =>
      this.#world.fail(asOttlaError(error)),
    );
  }

  #take(partition: ConsumerPartition, result: Start | OttlaError): void {
    partition.isResolving = false;
    if (result instanceof OttlaError) {
      if (result.code === "REQUEST_TIMED_OUT") partition.timeoutCount++;
      return this.#world.refused(partition, result);
    }
    this.#world.heard(partition);
    if (result.offset !== undefined) partition.arrive(result.offset);
    if (result.endOffset === undefined) return;
    partition.endOffset = result.endOffset;
    partition.mustProbe = partition.position > result.endOffset;
  }
}
