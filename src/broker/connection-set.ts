// The open connections of a broker: accepting them, one sweep timer for all of them, closing them.
import type { Logger } from "../ports/logger.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { MessageConnection } from "../ports/transport.ts";
import { ClientConnection, type ConnectionHost } from "./connection.ts";
import { NODE_NAME } from "./node-name.ts";

const SWEEP_MS = 1_000;
/** Most places that clients leave to other nodes: each has up to two connections to this one, and asks on a third now and then. */
const PEER_PLACES_MAX = 128;
/** And the share of all places that they never leave less than. */
const PEER_SHARE = 1 / 4;

export interface ConnectionSetDeps {
  readonly timers: Timers;
  readonly logger: Logger;
  readonly host: Omit<ConnectionHost, "onClosed" | "onBroken">;
  /** Once per sweep. */
  readonly onSweep: () => void;
  /** This node knows, or cannot know yet, that such a node belongs to its cluster. */
  readonly isPeer: (nodeId: number) => boolean;
}

export class ConnectionSet {
  readonly #deps: ConnectionSetDeps;
  readonly #connectionsMax: number;
  /** More are taken only of other nodes: without them this one is cut off from its quorum by its own clients. */
  readonly #clientsMax: number;
  readonly #open = new Set<ClientConnection>();
  readonly #peers = new Set<ClientConnection>();
  readonly #host: ConnectionHost;
  #sweep: TimerHandle | undefined;
  #isStopped = false;
  #onEmpty: (() => void) | undefined;

  constructor(deps: ConnectionSetDeps, connectionsMax: number) {
    this.#deps = deps;
    this.#connectionsMax = connectionsMax;
    this.#clientsMax = connectionsMax - Math.min(PEER_PLACES_MAX, Math.floor(connectionsMax * PEER_SHARE));
    const { host, logger } = deps;
    this.#host = {
      ...host,
      onBroken: ({ remote }, error, reason) => logger.warn("protocol_broken", { remote, error, reason }),
      onClosed: (connection, reason) => this.#closed(connection, reason),
    };
    // A broker-wide account that was full has room: everybody who paused for it may read again.
    host.accountant.produce.onRoom = () => this.#settleAll();
    host.accountant.peers.onRoom = () => this.#settleAll();
    host.accountant.control.onRoom = () => this.#settleAll();
    host.accountant.unsent.onRoom = () => this.#settleAll();
  }

  startSweeping(): void {
    this.#armSweep();
  }

  get count(): number {
    return this.#open.size;
  }

  accept(raw: MessageConnection): void {
    const connection = new ClientConnection(raw, this.#host);
    this.#open.add(connection);
    connection.start();
    if (this.#isStopped) connection.close("BROKER_NOT_AVAILABLE: the broker is stopping");
    else if (this.#open.size > this.#connectionsMax) connection.close("BUSY: connections.max is reached");
  }

  /** It has said who it is. False: it is one client too many, and will be closed. */
  named(connection: ClientConnection, clientId: string): boolean {
    const nodeId = NODE_NAME.exec(clientId)?.[1];
    if (nodeId !== undefined && this.#deps.isPeer(Number(nodeId))) this.#peers.add(connection);
    else if (this.#clientCount > this.#clientsMax) return false;
    return true;
  }

  get #clientCount(): number {
    return this.#open.size - this.#peers.size;
  }

  closeAll(reason: string): void {
    this.#isStopped = true;
    for (const connection of [...this.#open]) connection.close(reason);
  }

  destroyAll(): void {
    this.#isStopped = true;
    this.#sweep?.cancel();
    for (const connection of [...this.#open]) connection.destroy();
  }

  /** Resolves when no connection is open. */
  empty(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }

  #closed(connection: ClientConnection, reason: string): void {
    if (!this.#open.delete(connection)) return;
    this.#peers.delete(connection);
    const { remote, clientId } = connection;
    this.#deps.logger.debug("client_disconnected", { remote, clientId, reason });
    if (this.#open.size === 0) this.#onEmpty?.();
  }

  #settleAll(): void {
    for (const connection of [...this.#open]) connection.settle();
  }

  #armSweep(): void {
    this.#sweep = this.#deps.timers.after(SWEEP_MS, () => {
      this.#deps.host.guard(() => {
        const nowMs = this.#deps.host.nowMs();
        const isCrowded = this.#clientCount * 8 >= this.#clientsMax * 7;
        for (const connection of [...this.#open]) connection.sweep(nowMs, isCrowded);
        this.#deps.onSweep();
      });
      if (!this.#isStopped) this.#armSweep();
    });
  }
}
