// What the replicas of partitions that nobody leads have: each broker is asked over its control connection.
import type { PartitionRef, ReplicaEnd } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import { asOttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import { API } from "../../wire/native/apis.ts";
import type { DescribePartitionsResponse } from "../../wire/native/replication-apis.ts";
import type { OwnReplica } from "../own-replica.ts";
import type { PeerLinks } from "../quorum/peers.ts";

export interface ReplicaSurveyDeps {
  readonly nodeId: NodeId;
  readonly links: Pick<PeerLinks, "call">;
  /** Of this broker. */
  readonly own: (ref: PartitionRef) => OwnReplica | undefined;
}

/** Whoever has not answered by then counts as having nothing. */
const ANSWER_MS = 1_000;

const keyOf = (nodeId: NodeId, { topicId, partition }: PartitionRef): string => `${nodeId} ${topicId} ${partition}`;
const unknown = (why: string): ReplicaEnd => ({ kind: "unknown", why });

/** One question to each active broker, all at the same time. Bound: 1,000 partitions and the answers for them. */
export class ReplicaSurvey {
  readonly #deps: ReplicaSurveyDeps;
  readonly #ends = new Map<string, ReplicaEnd>();

  constructor(deps: ReplicaSurveyDeps) {
    this.#deps = deps;
  }

  endOf(nodeId: NodeId, ref: PartitionRef): ReplicaEnd | undefined {
    return this.#ends.get(keyOf(nodeId, ref));
  }

  async ask(image: MetadataImage, refs: readonly PartitionRef[]): Promise<void> {
    const byNode = new Map<NodeId, PartitionRef[]>();
    for (const ref of refs) {
      const partition = image.topic(ref.topicId)?.partitions[ref.partition];
      if (partition === undefined || partition.leader !== null) continue;
      for (const nodeId of partition.replicas) {
        if (!image.active.has(nodeId)) continue;
        const asked = byNode.get(nodeId);
        if (asked === undefined) byNode.set(nodeId, [ref]);
        else asked.push(ref);
      }
    }
    await Promise.all([...byNode].map(([nodeId, asked]) => this.#askOne(nodeId, asked)));
  }

  async #askOne(nodeId: NodeId, refs: readonly PartitionRef[]): Promise<void> {
    const { links, own } = this.#deps;
    if (nodeId === this.#deps.nodeId) {
      for (const ref of refs) this.#ends.set(keyOf(nodeId, ref), ofOwn(own(ref)));
      return;
    }
    try {
      const request = { entries: refs.map(({ topicId, partition }) => ({ topicId, partition })) };
      const { entries } = await links.call(nodeId, API.DESCRIBE_PARTITIONS, request, { timeoutMs: ANSWER_MS });
      refs.forEach((ref, at) => this.#ends.set(keyOf(nodeId, ref), ofAnswer(entries[at])));
    } catch (thrown) {
      const { message } = asOttlaError(thrown);
      for (const ref of refs) this.#ends.set(keyOf(nodeId, ref), unknown(message));
    }
  }
}

function ofOwn(replica: OwnReplica | undefined): ReplicaEnd {
  if (replica === undefined) return unknown("it has no intact log");
  const { lastEpoch, startOffset, endOffset } = replica;
  return { kind: "known", epoch: lastEpoch, startOffset, endOffset };
}

function ofAnswer(entry: DescribePartitionsResponse["entries"][number] | undefined): ReplicaEnd {
  if (entry === undefined || entry.endOffset < 0) return unknown(entry?.error ?? "no answer");
  const { leaderEpoch, logStartOffset, endOffset } = entry;
  return { kind: "known", epoch: leaderEpoch, startOffset: logStartOffset, endOffset };
}
