// The way from this broker to the controller: over the control connection, or straight when it is this node.
import type { NodeId } from "../model/ids.ts";
import { API } from "../wire/native/apis.ts";
import type {
  BrokerHeartbeatRequest,
  BrokerHeartbeatResponse,
  RegisterBrokerRequest,
  RegisterBrokerResponse,
} from "../wire/native/quorum-apis.ts";
import type { Controller } from "./controller/controller.ts";
import type { ControllerCalls } from "./membership.ts";
import type { PeerLinks } from "./quorum/peers.ts";

/** A registration waits for a commit. */
const REGISTER_TIMEOUT_MS = 5_000;

export interface ControllerPaths {
  readonly self: NodeId;
  readonly controller: Controller;
  readonly links: Pick<PeerLinks, "call">;
  /** How long an answer to a heartbeat may take. */
  readonly heartbeatTimeoutMs: number;
}

export class ControllerLink implements ControllerCalls {
  readonly #paths: ControllerPaths;

  constructor(paths: ControllerPaths) {
    this.#paths = paths;
  }

  register(to: NodeId, request: RegisterBrokerRequest): Promise<RegisterBrokerResponse> {
    const { self, controller, links } = this.#paths;
    if (to === self) return controller.register(request);
    return links.call(to, API.REGISTER_BROKER, request, { timeoutMs: REGISTER_TIMEOUT_MS });
  }

  heartbeat(to: NodeId, request: BrokerHeartbeatRequest): Promise<BrokerHeartbeatResponse> {
    const { self, controller, links, heartbeatTimeoutMs } = this.#paths;
    if (to === self) return controller.heartbeat(request);
    return links.call(to, API.BROKER_HEARTBEAT, request, { timeoutMs: heartbeatTimeoutMs });
  }
}
