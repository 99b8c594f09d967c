// Hello, the handshake.
// Versions: 0.
// Behaviour: answers what this broker is and speaks; must be the first request of a connection (the dispatcher sees to that). A second Hello
// on the same connection is answered like the first.
import { present } from "../../base/assert.ts";
import { NO_LEADER_EPOCH, toNodeId } from "../../model/ids.ts";
import type { API } from "../../wire/native/apis.ts";
import { SUPPORTED_VERSIONS } from "../../wire/native/codec.ts";
import type { Request } from "../request.ts";
import type { Services } from "../services.ts";
import { SOFTWARE } from "../types.ts";

export function handleHello(services: Services, request: Request<typeof API.HELLO>): void {
  const { store, metadata, config, logger } = services;
  const nodeId = toNodeId(config["node.id"]);
  const { clientId, software } = request.body;
  request.connection.clientId = clientId;
  logger.debug("client_connected", { remote: request.connection.remote, clientId, software });
  request.respond({
    clusterId: present(store.identity.clusterId, "cluster id"),
    nodeId,
    brokerEpoch: metadata.image.broker(nodeId)?.brokerEpoch ?? NO_LEADER_EPOCH,
    software: SOFTWARE,
    apis: SUPPORTED_VERSIONS,
    messageBytesMax: services.messageBytesMax,
    inFlightBytesMax: config["connection.inflight.bytes"],
  });
}
