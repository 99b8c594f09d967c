// DeleteTopics.
// Versions: 0 to 1.
// Behaviour: only the controller. Answered when the topic is marked; from then on nothing is produced to or fetched from it. Its logs go after that,
// then its name is free and Metadata lists it no more. Deleting one that is being deleted succeeds. With a request id (version 1) a deletion that
// is asked for again is answered as done.
import { decideDeletion } from "../../metadata/controller.ts";
import type { API, DeleteTopicsResponse } from "../../wire/native/apis.ts";
import type { ChangeSource } from "../quorum/types.ts";
import type { Request } from "../request.ts";
import { Once } from "../request-once.ts";
import type { Services } from "../services.ts";

type Answer = DeleteTopicsResponse["topics"][number];

export async function handleDeleteTopics(
  services: Services,
  request: Request<typeof API.DELETE_TOPICS>,
): Promise<void> {
  const refusal = services.controller.refusal();
  if (refusal !== undefined) throw refusal;
  const { names, requestId } = request.body;
  const once = new Once(requestId, names.length);
  const topics: Answer[] = [];
  for (const name of names) {
    const isLate = request.isPastDeadline(services.clock.monoMs());
    topics.push(
      isLate
        ? { name, error: "BUSY", message: "the request's time was up before its turn came" }
        : await mark(services, name, { once, source: request.connection }),
    );
  }
  request.respond({ topics });
}

async function mark(
  { controller }: Services,
  name: string,
  { once, source }: { readonly once: Once; readonly source: ChangeSource },
): Promise<Answer> {
  const decision = await controller.propose((image) => once.decide(image, () => decideDeletion(image, name)), source);
  if (decision.kind === "refused") return { name, error: decision.error, message: decision.message };
  return { name, error: "NONE", message: null };
}
