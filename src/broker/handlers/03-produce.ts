// Produce: append one record batch for each entry.
// Versions: 0.
// Behaviour: checks in the order of B-17; an entry that fails leaves the others alone (B-20). acks 1 answers when written, all when the high
// watermark has passed the batch (D-36), 0 never. Each error says "not appended", "unknown" or "appended" (D-28). A wrong acks fails the
// whole request, and so does a full queue (BUSY): nothing of it was appended then.
import type { API } from "../../wire/native/apis.ts";
import { ProduceOperation } from "../produce-operation.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export function handleProduce(services: Services, request: Request<typeof API.PRODUCE>): void {
  const { acks } = request.body;
  if (acks !== 0 && acks !== 1 && acks !== -1)
    return request.fail("INVALID_REQUIRED_ACKS", `acks ${acks} is none of 0, 1 and -1`);
  const taken = services.intake.take(new ProduceOperation(services, request, acks));
  if (taken) return;
  if (acks === 0) request.drop();
  else request.fail("BUSY", "too many requests wait");
}
