// DeleteTopics.
// Versions: 0.
// Behaviour: answered when the topic is marked; from then on nothing is produced to or fetched from it. Its logs go after that, then its name
// is free and Metadata lists it no more. Deleting one that is being deleted succeeds.
import { decideDeletion } from "../../metadata/controller.ts";
import type { API, DeleteTopicsResponse } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

type Answer = DeleteTopicsResponse["topics"][number];

export async function handleDeleteTopics(
  services: Services,
  request: Request<typeof API.DELETE_TOPICS>,
): Promise<void> {
  const topics: Answer[] = [];
  for (const name of request.body.names) {
    const isLate = request.isPastDeadline(services.clock.monoMs());
    topics.push(isLate ? { name, error: "REQUEST_TIMED_OUT", message: null } : await mark(services, name));
  }
  request.respond({ topics });
}

async function mark(services: Services, name: string): Promise<Answer> {
  const decision = await services.metadata.propose((image) => decideDeletion(image, name));
  if (decision.kind === "refused") return { name, error: decision.error, message: decision.message };
  const record = decision.records[0];
  if (record?.type === "delete-topic") {
    services.replicas.drop(record.topicId, "UNKNOWN_TOPIC_OR_PARTITION");
    void services.topics.reconcile(record.topicId); // never rejects; a failure is logged and tried again
  }
  return { name, error: "NONE", message: null };
}
