// The control connection to one peer: at most one, made again after a back-off for as long as somebody wants it.
import { asOttlaError, OttlaError } from "../../model/errors.ts";
import { type ClusterId, type NodeId, UUID_BYTES, uuidFromBytes } from "../../model/ids.ts";
import type { Rng } from "../../base/rng.ts";
import type { Alarm, Alarms } from "../../link/alarms.ts";
import { backoffMs } from "../../link/backoff.ts";
import { BrokerConnection } from "../../link/broker-connection.ts";
import type { Logger } from "../../ports/logger.ts";
import { type MessageTransport, TransportError } from "../../ports/transport.ts";
import { nodeName } from "../node-name.ts";

const BACKOFF = { firstMs: 20, longestMs: 1_000 };
/** For the transport's connect and Hello together. */
const ATTEMPT_TIMEOUT_MS = 2_000;
/** A connection that lived this long was a good one: the back-off starts anew. */
const GOOD_MS = 200;
/** A connection that nobody wants stays this long after its last use. */
const IDLE_MS = 30_000;
/** A peer that is not known to be of the same cluster is asked again after this. */
const ASK_AGAIN_MS = 5_000;
/** What a broker says that belongs to no cluster yet. */
const NO_CLUSTER = uuidFromBytes(new Uint8Array(UUID_BYTES));

export interface PeerLinkContext {
  readonly transport: MessageTransport;
  readonly alarms: Alarms;
  readonly rng: Rng;
  readonly logger: Logger;
  readonly software: string;
  readonly self: NodeId;
  /** Where the peer may be found, the likeliest first; empty = not known. */
  addressesOf(nodeId: NodeId): readonly string[];
  clusterId(): ClusterId | null;
}

export interface PeerLinkEvents {
  onConnected(): void;
  onLost(): void;
  /** Nobody listens at this address. */
  onRefused(address: string): void;
}

interface Waiting {
  readonly resolve: (connection: BrokerConnection) => void;
  readonly reject: (error: OttlaError) => void;
  readonly alarm: Alarm;
}

/** How an attempt ended, for whoever asked for one. */
export type AttemptOutcome = "connected" | "refused" | "failed";

export class PeerLink {
  readonly nodeId: NodeId;
  readonly #context: PeerLinkContext;
  readonly #events: PeerLinkEvents;
  #current: BrokerConnection | undefined;
  #attempt: Promise<AttemptOutcome> | undefined;
  #attempts = 0;
  #failures = 0;
  #backoff: Alarm | undefined;
  readonly #waiting = new Set<Waiting>();
  #isWanted = false;
  #usedMs: number;
  #isClosed = false;
  /** For people. */
  lastFault: string | undefined;
  /** Another cluster's id, that the node found at the last attempt belongs to. */
  strangeCluster: string | undefined;

  constructor(nodeId: NodeId, context: PeerLinkContext, events: PeerLinkEvents) {
    this.nodeId = nodeId;
    this.#context = context;
    this.#events = events;
    this.#usedMs = context.alarms.nowMs();
  }

  /** Open, after its Hello. */
  get current(): BrokerConnection | undefined {
    return this.#current;
  }

  /** True: connected as far as it goes, all the time. False: when somebody asks. */
  set isWanted(isWanted: boolean) {
    this.#isWanted = isWanted;
    if (isWanted) this.#connectSoon();
    else if (this.#context.alarms.nowMs() - this.#usedMs > IDLE_MS)
      void this.#drop(new OttlaError("CLOSED", "not needed any more"));
  }

  /** Somebody uses the connection now. */
  used(): BrokerConnection | undefined {
    this.#usedMs = this.#context.alarms.nowMs();
    return this.#current;
  }

  /** The peer gave a sign of life: no back-off now. */
  nudge(): void {
    if (this.#backoff === undefined) return;
    this.#failures = 0;
    this.#endBackoff();
    this.#connectSoon();
  }

  renew(): void {
    void this.#current?.close(new OttlaError("CONNECTION_LOST", `node ${this.nodeId} was started again`));
    this.nudge();
  }

  /** Rejects when there is none within the time; makes one if nobody does. */
  connected(timeoutMs: number): Promise<BrokerConnection> {
    const current = this.used();
    if (current !== undefined) return Promise.resolve(current);
    return new Promise((resolve, reject) => {
      const failed = (): OttlaError =>
        new OttlaError("CONNECTION_FAILED", `node ${this.nodeId}: ${this.lastFault ?? "no connection in time"}`);
      const alarm = this.#context.alarms.after(timeoutMs, () => {
        this.#waiting.delete(waiting);
        reject(failed());
      });
      const waiting: Waiting = { resolve, reject, alarm };
      this.#waiting.add(waiting);
      this.#connectSoon();
    });
  }

  /** One attempt now, whatever the back-off says. */
  tryNow(): Promise<AttemptOutcome> {
    if (this.#current !== undefined) return Promise.resolve("connected");
    this.#endBackoff();
    return this.#begin();
  }

  close(): Promise<void> {
    this.#isClosed = true;
    this.#endBackoff();
    const closed = new OttlaError("CLOSED", "the broker is stopping");
    this.#rejectWaiting(closed);
    return this.#drop(closed);
  }

  #drop(error: OttlaError): Promise<void> {
    this.#endBackoff();
    return this.#current?.close(error) ?? Promise.resolve();
  }

  #connectSoon(): void {
    if (this.#isClosed || this.#current !== undefined || this.#backoff !== undefined) return;
    void this.#begin();
  }

  #begin(): Promise<AttemptOutcome> {
    this.#attempt ??= this.#open().then((outcome) => {
      this.#attempt = undefined;
      if (outcome !== "connected") this.#holdOff();
      return outcome;
    });
    return this.#attempt;
  }

  async #open(): Promise<AttemptOutcome> {
    const addresses = this.#context.addressesOf(this.nodeId);
    const address = addresses[this.#attempts++ % Math.max(1, addresses.length)];
    if (address === undefined) {
      this.lastFault = "its address is not known";
      return "failed";
    }
    try {
      const timedOut = (): OttlaError => new OttlaError("CONNECTION_FAILED", `${address} does not answer`);
      await this.#context.alarms.within(this.#connect(address), ATTEMPT_TIMEOUT_MS, timedOut);
      // The address that answered is the first one next time.
      this.#attempts--;
      return "connected";
    } catch (thrown) {
      this.lastFault = thrown instanceof Error ? thrown.message : String(thrown);
      const isRefused = thrown instanceof TransportError && thrown.kind === "refused";
      if (isRefused && !this.#isClosed) this.#events.onRefused(address);
      return isRefused ? "refused" : "failed";
    }
  }

  /** May end after #open gave it up: then the late connection is dropped. */
  async #connect(address: string): Promise<void> {
    const { transport, alarms, self, software } = this.#context;
    const connection: BrokerConnection = new BrokerConnection(await transport.connect(address), {
      alarms,
      events: { onClosed: (error) => this.#lost(connection, error), onDrain: () => undefined },
    });
    try {
      const answer = await connection.hello(nodeName(self), ATTEMPT_TIMEOUT_MS, software);
      const fault = this.#strangerAt(address, answer);
      if (fault !== undefined) throw fault;
      if (this.#isClosed || this.#current !== undefined) throw new OttlaError("CLOSED", "not needed any more");
      this.#askAgain(connection, address, answer.clusterId);
    } catch (thrown) {
      void connection.close(asOttlaError(thrown));
      throw thrown;
    }
    this.#current = connection;
    this.lastFault = undefined;
    this.#events.onConnected();
    for (const { resolve, alarm } of this.#waiting) {
      alarm.cancel();
      resolve(connection);
    }
    this.#waiting.clear();
  }

  /** One of the two did not know its cluster yet. */
  #askAgain(connection: BrokerConnection, address: string, clusterId: string): void {
    const { alarms, self, software } = this.#context;
    if (clusterId === this.#context.clusterId()) return;
    alarms.after(ASK_AGAIN_MS, () => {
      if (this.#current !== connection) return;
      connection.hello(nodeName(self), ATTEMPT_TIMEOUT_MS, software).then(
        (answer) => {
          const fault = this.#strangerAt(address, answer);
          if (fault !== undefined) void connection.close(fault);
          else this.#askAgain(connection, address, answer.clusterId);
        },
        () => undefined, // it does not answer: that is for its users to notice
      );
    });
  }

  #strangerAt(
    address: string,
    answer: { readonly nodeId: NodeId; readonly clusterId: string },
  ): OttlaError | undefined {
    const own = this.#context.clusterId();
    const isOther = own !== null && answer.clusterId !== NO_CLUSTER && answer.clusterId !== own;
    this.strangeCluster = isOther ? answer.clusterId : undefined;
    if (isOther) return new OttlaError("INCONSISTENT_CLUSTER_ID", `${address} belongs to cluster ${answer.clusterId}`);
    if (answer.nodeId === this.nodeId) return undefined;
    return new OttlaError("CONNECTION_FAILED", `${address} is node ${answer.nodeId}, not ${this.nodeId}`);
  }

  #lost(connection: BrokerConnection, error: OttlaError): void {
    if (this.#current !== connection) return;
    this.#current = undefined;
    this.lastFault = error.message;
    if (this.#context.alarms.nowMs() - connection.openedMs >= GOOD_MS) this.#failures = 0;
    this.#events.onLost();
    this.#holdOff();
  }

  #holdOff(): void {
    if (this.#isClosed || this.#backoff !== undefined) return;
    this.#failures++;
    const waitMs = backoffMs(this.#failures, this.#context.rng, BACKOFF);
    this.#backoff = this.#context.alarms.after(waitMs, () => {
      this.#backoff = undefined;
      if (this.#isWanted || this.#waiting.size > 0) this.#connectSoon();
    });
  }

  #endBackoff(): void {
    this.#backoff?.cancel();
    this.#backoff = undefined;
  }

  #rejectWaiting(error: OttlaError): void {
    for (const { reject, alarm } of this.#waiting) {
      alarm.cancel();
      reject(error);
    }
    this.#waiting.clear();
  }
}
