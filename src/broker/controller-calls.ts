// The way from this broker to the controller: over the control connection, or straight when it is this node.
import { OttlaError } from "../model/errors.ts";
import type { NodeId } from "../model/ids.ts";
import { API } from "../wire/native/apis.ts";
import type {
  BrokerHeartbeatRequest,
  BrokerHeartbeatResponse,
  RegisterBrokerRequest,
  RegisterBrokerResponse,
} from "../wire/native/quorum-apis.ts";
import type { AllocateProducerIdsRequest, AllocateProducerIdsResponse } from "../wire/native/producer-apis.ts";
import type { AlterPartitionRequest, AlterPartitionResponse } from "../wire/native/replication-apis.ts";
import type { Controller } from "./controller/controller.ts";
import type { ControllerCalls } from "./membership.ts";
import type { PeerLinks } from "./quorum/peers.ts";
import type { IsrController } from "./replication/types.ts";

/** A registration waits for a commit. */
const REGISTER_TIMEOUT_MS = 5_000;
/** So does a change of ISRs. */
const ALTER_TIMEOUT_MS = 5_000;
const ALLOCATE_TIMEOUT_MS = 5_000;

export interface ControllerPaths {
  readonly self: NodeId;
  readonly controller: Controller;
  readonly links: Pick<PeerLinks, "call">;
  readonly controllerId: () => NodeId | null;
  /** How long an answer to a heartbeat may take. */
  readonly heartbeatTimeoutMs: number;
}

export class ControllerLink implements ControllerCalls, IsrController {
  readonly #paths: ControllerPaths;

  constructor(paths: ControllerPaths) {
    this.#paths = paths;
  }

  register(to: NodeId, request: RegisterBrokerRequest): Promise<RegisterBrokerResponse> {
    const { self, controller, links } = this.#paths;
    if (to === self) return controller.register(request);
    return links.call(to, API.REGISTER_BROKER, request, { timeoutMs: REGISTER_TIMEOUT_MS });
  }

  /** At the controller of now. */
  async alterPartition(request: AlterPartitionRequest): Promise<AlterPartitionResponse> {
    const { self, controller, links, controllerId } = this.#paths;
    const to = controllerId();
    if (to === null) throw new OttlaError("NOT_CONTROLLER", "no controller is known");
    if (to === self) return controller.alterPartition(request);
    return links.call(to, API.ALTER_PARTITION, request, { timeoutMs: ALTER_TIMEOUT_MS });
  }

  /** At the controller of now. */
  async allocateProducerIds(request: AllocateProducerIdsRequest): Promise<AllocateProducerIdsResponse> {
    const { self, controller, links, controllerId } = this.#paths;
    const to = controllerId();
    if (to === null) throw new OttlaError("NOT_CONTROLLER", "no controller is known");
    if (to === self) return controller.allocateProducerIds(request);
    return links.call(to, API.ALLOCATE_PRODUCER_IDS, request, { timeoutMs: ALLOCATE_TIMEOUT_MS });
  }

  heartbeat(to: NodeId, request: BrokerHeartbeatRequest): Promise<BrokerHeartbeatResponse> {
    const { self, controller, links, heartbeatTimeoutMs } = this.#paths;
    if (to === self) return controller.heartbeat(request);
    return links.call(to, API.BROKER_HEARTBEAT, request, { timeoutMs: heartbeatTimeoutMs });
  }
}
