// ReplicaFetch: a follower asks for what follows its positions.
// Versions: 0.
// Behaviour: answered when there is something to say of any partition of the session, or after `maxWaitMs`, with what there is; a newer fetch of the
// session ends the wait of the one before. STALE_BROKER_EPOCH: the follower is registered anew. FETCH_SESSION_ID_NOT_FOUND: of an older session.
import type { API } from "../../wire/native/apis.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";

export function handleReplicaFetch({ replication }: Services, request: Request<typeof API.REPLICA_FETCH>): void {
  replication.fetch(request);
}
