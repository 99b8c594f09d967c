// DurableReport: what a follower has on disk (D-3).
// Versions: 0.
// Behaviour: never answered; what is of an older session, broker epoch or leader epoch is dropped.
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export function handleDurableReport({ replication }: Services, request: Request<typeof API.DURABLE_REPORT>): void {
  replication.report(request);
}
