// CreateTopics.
// Versions: 0.
// Behaviour: each topic by itself, in order; one refused leaves the others alone. Answered when the topic is durable in the metadata log and
// its logs are open, so that a produce sent next is served. `validateOnly` decides and changes nothing. Below the low-space mark: STORAGE_FULL.
import { UUID_BYTES, uuidFromBytes, type TopicId } from "../../model/ids.ts";
import type { ErrorName } from "../../model/errors.ts";
import { type Decision, decideTopic, type TopicContext } from "../../metadata/controller.ts";
import type { API, CreateTopicsRequest, CreateTopicsResponse } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Wish = CreateTopicsRequest["topics"][number];
type Answer = CreateTopicsResponse["topics"][number];

export async function handleCreateTopics(
  services: Services,
  request: Request<typeof API.CREATE_TOPICS>,
): Promise<void> {
  const topics: Answer[] = [];
  for (const wish of request.body.topics) {
    const isLate = request.isPastDeadline(services.clock.monoMs());
    topics.push(
      isLate ? refused(wish, "REQUEST_TIMED_OUT", null) : await create(services, wish, request.body.validateOnly),
    );
  }
  request.respond({ topics });
}

async function create(services: Services, wish: Wish, validateOnly: boolean): Promise<Answer> {
  if (services.store.isLowOnSpace) return refused(wish, "STORAGE_FULL", null);
  const context = contextOf(services);
  if (validateOnly) return answerOf(wish, decideTopic(services.metadata.image, wish, context));
  const decision = await services.metadata.propose((image) => decideTopic(image, wish, context));
  if (decision.kind === "refused") return answerOf(wish, decision);
  const failure = await services.topics.reconcile(context.topicId);
  // The topic exists and is opened as soon as that works: the client is told what stands in the way now.
  return failure === undefined ? answerOf(wish, decision) : refused(wish, failure.code, failure.message);
}

function contextOf(services: Services): TopicContext {
  const { config, entropy, clock } = services;
  const bytes = new Uint8Array(UUID_BYTES);
  entropy.fill(bytes);
  return {
    topicId: uuidFromBytes(bytes) as TopicId,
    nowMs: clock.wallMs(),
    partitionsDefault: config["num.partitions"],
    partitionsPerTopicMax: config["max.partitions.per.topic"],
    partitionsMax: config["max.partitions"],
  };
}

function refused(wish: Wish, error: ErrorName, message: string | null): Answer {
  return { name: wish.name, error, message, topicId: null, partitions: 0 };
}

function answerOf(wish: Wish, decision: Decision): Answer {
  if (decision.kind === "refused") return refused(wish, decision.error, decision.message);
  const record = decision.records[0];
  if (record?.type !== "topic") return refused(wish, "UNKNOWN_SERVER_ERROR", null);
  return { name: wish.name, error: "NONE", message: null, topicId: record.topicId, partitions: record.replicas.length };
}
