// CreateTopics.
// Versions: 0 to 1.
// Behaviour: only the controller. Each topic by itself, in order; one refused leaves the others alone. Answered when the topic is committed and
// the logs of it that are the controller's own are open. `validateOnly` decides and changes nothing. Brokers below their low-space mark are given no
// partition; when all are, STORAGE_FULL. With a request id (version 1) a creation that is asked for again is answered as done (`partitions` -1: the
// topic is gone again).
import { UUID_BYTES, uuidFromBytes, type TopicId } from "../../model/ids.ts";
import type { ErrorName } from "../../model/errors.ts";
import { type Decision, decideTopic, type TopicContext } from "../../metadata/controller.ts";
import type { API, CreateTopicsRequest, CreateTopicsResponse } from "../../wire/native/apis.ts";
import type { ChangeSource } from "../quorum/types.ts";
import type { Request } from "../request.ts";
import { Once } from "../request-once.ts";
import type { Services } from "../services.ts";

type Wish = CreateTopicsRequest["topics"][number];
type Answer = CreateTopicsResponse["topics"][number];

export async function handleCreateTopics(
  services: Services,
  request: Request<typeof API.CREATE_TOPICS>,
): Promise<void> {
  const refusal = services.controller.refusal();
  if (refusal !== undefined) throw refusal;
  const { topics: wishes, validateOnly, requestId } = request.body;
  const once = new Once(requestId, wishes.length);
  const topics: Answer[] = [];
  for (const wish of wishes) {
    const isLate = request.isPastDeadline(services.clock.monoMs());
    if (isLate) topics.push(refused(wish, "BUSY", "the request's time was up before its turn came"));
    else
      topics.push(
        validateOnly
          ? await validate(services, wish)
          : await create(services, wish, { once, source: request.connection }),
      );
  }
  request.respond({ topics });
}

/** A decision that is not carried out is a read. */
async function validate(services: Services, wish: Wish): Promise<Answer> {
  const refusal = await services.controller.barrier();
  if (refusal !== null) return refused(wish, refusal.code, refusal.message);
  return answerOf(wish, decideTopic(services.quorum.image, wish, contextOf(services)));
}

async function create(
  services: Services,
  wish: Wish,
  { once, source }: { readonly once: Once; readonly source: ChangeSource },
): Promise<Answer> {
  const context = contextOf(services);
  const decision = await services.controller.propose(
    (image) => once.decide(image, () => decideTopic(image, wish, context)),
    source,
  );
  if (once.isRepeated) return createdBefore(services, wish, once.topicId);
  const answer = answerOf(wish, decision);
  // So that a produce sent next is served, where its leader is here. What cannot be opened now is opened as soon as that works.
  if (answer.topicId !== null && hasReplica(services, answer.topicId)) await services.topics.reconcile(answer.topicId);
  return answer;
}

function hasReplica({ quorum, nodeId }: Services, topicId: TopicId): boolean {
  const { partitions = [] } = quorum.image.topic(topicId) ?? {};
  return partitions.some(({ replicas }) => replicas.includes(nodeId));
}

/** The topic that an earlier try created, whatever has its name by now. */
function createdBefore({ quorum }: Services, { name }: Wish, topicId: TopicId | null): Answer {
  const topic = topicId === null ? undefined : quorum.image.topic(topicId);
  return { name, error: "NONE", message: null, topicId, partitions: topic?.partitions.length ?? -1 };
}

function contextOf({ config, entropy, clock, controller, store, nodeId }: Services): TopicContext {
  const bytes = new Uint8Array(UUID_BYTES);
  entropy.fill(bytes);
  return {
    topicId: uuidFromBytes(bytes) as TopicId,
    nowMs: clock.wallMs(),
    partitionsDefault: config["num.partitions"],
    replicationFactorDefault: config["default.replication.factor"],
    partitionsPerTopicMax: config["max.partitions.per.topic"],
    partitionsMax: config["max.partitions"],
    isQuiet: (broker) => controller.isQuiet(broker),
    isLowOnSpace: (broker) => (broker === nodeId ? store.isLowOnSpace : controller.isLowOnSpace(broker)),
  };
}

function refused(wish: Wish, error: ErrorName, message: string | null): Answer {
  return { name: wish.name, error, message, topicId: null, partitions: 0 };
}

function answerOf(wish: Wish, decision: Decision): Answer {
  if (decision.kind === "refused") return refused(wish, decision.error, decision.message);
  const record = decision.records.find(({ type }) => type === "topic");
  if (record?.type !== "topic") return refused(wish, "UNKNOWN_SERVER_ERROR", null);
  return { name: wish.name, error: "NONE", message: null, topicId: record.topicId, partitions: record.replicas.length };
}
