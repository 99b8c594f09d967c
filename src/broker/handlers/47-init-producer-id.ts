// InitProducerId: who numbers its batches gets an id and an epoch for it.
// Versions: 0.
// Behaviour: without a name any broker answers, out of its block of ids (P-17). A name is the controller's: answered when nothing of an older epoch
// of the name is appended anywhere any more (invariant 24).
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export async function handleInitProducerId(
  services: Services,
  request: Request<typeof API.INIT_PRODUCER_ID>,
): Promise<void> {
  const { name, ...present } = request.body;
  const timeoutMs = request.waitBudgetMs(services.config["request.timeout.ms"]);
  if (name !== null) {
    const wish = { name, ...present };
    return request.respond(await services.controller.initProducer(wish, timeoutMs, request.connection));
  }
  if (present.producerId >= 0 || present.producerEpoch >= 0)
    return request.fail("INVALID_REQUEST", "an id without a name goes on in a new epoch by itself");
  request.respond({ producerId: await services.producerIds.next(timeoutMs), producerEpoch: 0 });
}
