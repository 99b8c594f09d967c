// RaiseMetadataVersion: from then on the cluster uses records that older builds do not know (D-31).
// Versions: 0.
// Behaviour: only the controller; refused unless every registered broker supports the version and every voter is registered. It never goes down.
import { decideMetadataVersion } from "../../metadata/controller.ts";
import type { API } from "../../wire/native/apis.ts";
import { OttlaError } from "../../model/errors.ts";
import { controllerOf, quorumOf } from "../quorum-door.ts";
import type { Request } from "../request.ts";
import type { NodeServices } from "../services.ts";

export async function handleRaiseMetadataVersion(
  node: NodeServices,
  request: Request<typeof API.RAISE_METADATA_VERSION>,
): Promise<void> {
  const { version } = request.body;
  const decision = await controllerOf(node).propose((image) => {
    const members = quorumOf(node).status.voters.map(({ nodeId }) => nodeId);
    return decideMetadataVersion(image, { version, supported: node.metadataVersions, members });
  }, request.connection);
  if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
  request.respond({});
}
