// Hello, the handshake.
// Versions: 0.
// Behaviour: answers what this broker is and speaks; must be the first request of a connection (the dispatcher sees to that). A second Hello
// on the same connection is answered like the first. Answered from the moment the port listens: until the broker belongs to a cluster the
// cluster id is all zero, until it is registered the broker epoch is -1. When so many clients are connected that only the places kept for other nodes are left: BUSY, and the end.
import type { API } from "../../wire/native/apis.ts";
import { SUPPORTED_VERSIONS } from "../../wire/native/codec.ts";
import type { Request } from "../request.ts";
import { type NodeServices, ZERO_UUID } from "../services.ts";
import { SOFTWARE } from "../types.ts";

export function handleHello(node: NodeServices, request: Request<typeof API.HELLO>): void {
  const { quorum, config, logger, nodeId } = node;
  const { clientId, software } = request.body;
  if (!node.named(request.connection, clientId)) {
    request.fail("BUSY", "connections.max is reached; the places left are for other nodes");
    request.connection.close("BUSY: connections.max is reached");
    return;
  }
  request.connection.clientId = clientId;
  logger.debug("client_connected", { remote: request.connection.remote, clientId, software });
  request.respond({
    clusterId: quorum?.clusterId ?? ZERO_UUID,
    nodeId,
    brokerEpoch: quorum?.image.broker(nodeId)?.brokerEpoch ?? -1,
    software: SOFTWARE,
    apis: SUPPORTED_VERSIONS,
    messageBytesMax: node.messageBytesMax,
    inFlightBytesMax: config["connection.inflight.bytes"],
  });
}
