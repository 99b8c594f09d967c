// AlterConfigs: configuration that changes while brokers run: of one topic, of one broker, or of all brokers.
// Versions: 0.
// Behaviour: only the controller; all of the changes or none. Answered when committed; each broker applies it when it has come there.
// `validateOnly` decides and changes nothing. With a request id a change that is asked for again is answered as done.
import { type Decision, decideBrokerConfigs, decideTopicConfigs } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import type { AlterConfigsRequest, API } from "../../wire/native/apis.ts";
import { OttlaError } from "../../model/errors.ts";
import { nodeIdOfResource } from "../config-resources.ts";
import type { Request } from "../request.ts";
import { Once } from "../request-once.ts";
import type { Services } from "../services.ts";

export async function handleAlterConfigs(
  services: Services,
  request: Request<typeof API.ALTER_CONFIGS>,
): Promise<void> {
  const { controller, quorum } = services;
  const refusal = controller.refusal() ?? (request.body.validateOnly ? await controller.barrier() : null);
  if (refusal !== null) throw refusal;
  const { validateOnly, requestId } = request.body;
  const once = new Once(requestId, 1);
  const decide = (image: MetadataImage) => decisionOf(image, request.body);
  const decision = validateOnly
    ? decide(quorum.image)
    : await controller.propose((image) => once.decide(image, decide), request.connection);
  if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
  request.respond({ metadataEnd: quorum.image.endOffset });
}

function decisionOf(image: MetadataImage, { resource, name, changes }: AlterConfigsRequest): Decision {
  if (resource === "topic") return decideTopicConfigs(image, { name, changes });
  return decideBrokerConfigs(image, { nodeId: nodeIdOfResource(name), changes });
}
