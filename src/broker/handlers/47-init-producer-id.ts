// InitProducerId: who numbers its batches gets an id and an epoch for it.
// Versions: 0.
// Behaviour: without a name any broker answers, out of its block of ids (P-17). A name is the controller's: answered when nothing of an older epoch
// of the name is appended anywhere any more (invariant 24).
import { OttlaError } from "../../model/errors.ts";
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export async function handleInitProducerId(
  _services: Services,
  _request: Request<typeof API.INIT_PRODUCER_ID>,
): Promise<void> {
  throw new OttlaError("BROKER_NOT_AVAILABLE", "not yet");
}
