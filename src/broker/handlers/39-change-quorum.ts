// ChangeQuorum: who votes, and who leads.
// Versions: 0.
// Behaviour: only the controller; answered when the change is committed, or when the leader has handed over. An added voter follows first and
// votes once it has caught up. Past the deadline: REQUEST_TIMED_OUT, and the addition goes on.
import type { API } from "../../wire/native/apis.ts";
import type { ChangeQuorumRequest } from "../../wire/native/quorum-apis.ts";
import { OttlaError } from "../../model/errors.ts";
import type { DirectoryId } from "../../model/ids.ts";
import { controllerOf, quorumOf } from "../quorum-door.ts";
import type { ChangeOutcome, HostedQuorum } from "../quorum/types.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleChangeQuorum(
  node: NodeServices,
  request: Request<typeof API.CHANGE_QUORUM>,
): Promise<void> {
  const refusal = controllerOf(node).refusal();
  if (refusal !== undefined) throw refusal;
  const timeoutMs = request.waitBudgetMs(node.config["request.timeout.ms"]);
  const outcome = await change(quorumOf(node), request.body, timeoutMs);
  if (outcome.kind === "refused") throw new OttlaError(outcome.error, outcome.message);
  request.respond({});
}

function change(quorum: HostedQuorum, body: ChangeQuorumRequest, timeoutMs: number): Promise<ChangeOutcome> {
  const { op, nodeId, directoryId } = body;
  switch (op) {
    case "transfer":
      return quorum.transfer(nodeId, timeoutMs);
    case "remove":
      return quorum.change({ op, nodeId, directoryId }, timeoutMs);
    case "add":
    case "replace":
      return quorum.change({ op, nodeId, directoryId: directoryId ?? registeredDirectory(quorum, body) }, timeoutMs);
  }
}

function registeredDirectory(quorum: HostedQuorum, { nodeId }: ChangeQuorumRequest): DirectoryId {
  const broker = quorum.image.broker(nodeId);
  if (broker === undefined)
    throw new OttlaError("BROKER_ID_NOT_REGISTERED", `no broker with node id ${nodeId} has registered`);
  return broker.directoryId;
}
