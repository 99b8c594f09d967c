// Raft: one message of the metadata quorum.
// Versions: 0.
// Behaviour: one-way, never answered. Dropped while this node has no quorum yet; the quorum itself drops what is not for it (D-20).
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export function handleRaft({ quorum }: NodeServices, request: Request<typeof API.RAFT>): void {
  const bodies = request.takeBodies();
  quorum?.receiveRaft(request.body, bodies);
  request.drop();
}
