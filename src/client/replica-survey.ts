// Asks brokers how far replicas are: their leaders, which know of all, or, where nobody leads, each of itself.
import { OttlaError } from "../model/errors.ts";
import { API, type ApiTypes, type TopicMetadata } from "../wire/native/apis.ts";
import { askMany } from "./ask-many.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import { partitionOf } from "./metadata-cache.ts";
import { noLeader } from "./unreadable.ts";

export type Described = ApiTypes[typeof API.DESCRIBE_PARTITIONS]["response"]["entries"][number];
export type Answer = Described | OttlaError;

/** Partitions per request. */
export const ASKED_MAX = 1_000;

/** All of them at the same time, each answer entered by itself. */
export async function askLeaders(
  context: ClientContext,
  asked: {
    readonly topic: TopicMetadata;
    readonly indexes: readonly number[];
    readonly answers: Map<number, Answer>;
    readonly timeoutMs: number;
  },
): Promise<void> {
  const { topic, indexes, answers, timeoutMs } = asked;
  const groups = new Map<BrokerLink, number[][]>();
  for (const index of indexes) {
    const partition = partitionOf(topic, index);
    if (partition === undefined) continue;
    const link = context.pool.linkOfNode(partition.leader);
    if (link === undefined) {
      answers.set(index, noLeader(topic.name, partition));
      continue;
    }
    const chunks = groups.get(link) ?? [];
    const last = chunks.at(-1);
    if (last !== undefined && last.length < ASKED_MAX) last.push(index);
    else chunks.push([index]);
    groups.set(link, chunks);
  }
  const asking = [...groups].flatMap(([link, chunks]) =>
    chunks.map(async (chunk) => {
      const found = await askBroker(context, { link, topic, indexes: chunk, timeoutMs });
      for (const [at, index] of chunk.entries()) {
        const answer = found[at] ?? new OttlaError("PROTOCOL_ERROR");
        answers.set(
          index,
          answer instanceof OttlaError || answer.error === "NONE" ? answer : new OttlaError(answer.error),
        );
      }
    }),
  );
  await Promise.all(asking);
}

function askBroker(
  context: ClientContext,
  asked: {
    readonly link: BrokerLink;
    readonly topic: TopicMetadata;
    readonly indexes: readonly number[];
    readonly timeoutMs: number;
  },
): Promise<Answer[]> {
  const { topic, indexes } = asked;
  const entries = indexes.map((partition) => ({ topicId: topic.topicId, partition }));
  return askMany(context, { ...asked, wishes: indexes }, async (connection, leftMs) => {
    const response = await connection.call(API.DESCRIBE_PARTITIONS, { entries }, leftMs, { isPatient: true });
    return response.entries;
  });
}

/** What each replica says of itself, by partition and node: where nobody leads. */
export type Survey = ReadonlyMap<number, ReadonlyMap<number, Described>>;

export async function askReplicas(
  context: ClientContext,
  asked: { readonly topic: TopicMetadata; readonly indexes: readonly number[]; readonly timeoutMs: number },
): Promise<Survey> {
  const { topic, indexes, timeoutMs } = asked;
  const byNode = new Map<number, number[]>();
  const survey = new Map<number, Map<number, Described>>();
  for (const index of indexes.slice(0, ASKED_MAX)) {
    survey.set(index, new Map());
    for (const nodeId of partitionOf(topic, index)?.replicas ?? []) {
      const wanted = byNode.get(nodeId);
      if (wanted === undefined) byNode.set(nodeId, [index]);
      else wanted.push(index);
    }
  }
  const asking = [...byNode].map(async ([nodeId, wanted]) => {
    const link = context.pool.linkOfNode(nodeId);
    if (link === undefined) return;
    const answers = await askBroker(context, { link, topic, indexes: wanted, timeoutMs });
    for (const [at, index] of wanted.entries()) {
      const answer = answers[at];
      if (answer !== undefined && !(answer instanceof OttlaError)) survey.get(index)?.set(nodeId, answer);
    }
  });
  await Promise.all(asking);
  return survey;
}
