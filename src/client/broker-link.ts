// The way to one broker's address: at most one connection, made when it is needed, made again after a back-off when it was lost.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { Rng } from "../base/rng.ts";
import type { Logger } from "../ports/logger.ts";
import { TransportError, type MessageConnection, type MessageTransport } from "../ports/transport.ts";
import type { Alarm, Alarms } from "../link/alarms.ts";
import { backoffMs } from "../link/backoff.ts";
import { BrokerConnection } from "../link/broker-connection.ts";

/** A connection that lived this long was a good one: the back-off starts anew. */
const GOOD_MS = 1_000;
/** A connection that is back this soon was no outage to tell of: a broker's restart, say. */
const OUTAGE_MS = 1_000;
/** For the transport's connect and Hello together. */
const ATTEMPT_TIMEOUT_MS = 5_000;

export interface LinkContext {
  readonly transport: MessageTransport;
  readonly alarms: Alarms;
  readonly rng: Rng;
  readonly logger: Logger;
  readonly clientId: string;
}

export interface LinkWatcher {
  /** After Hello. */
  onOpen?(): void;
  onDrain?(): void;
}

export class BrokerLink {
  readonly address: string;
  readonly #context: LinkContext;
  readonly #watchers = new Set<LinkWatcher>();
  #current: BrokerConnection | undefined;
  /** Not through with their Hello yet: a late one of an attempt that was given up may be among them. */
  readonly #opening = new Set<BrokerConnection>();
  #attempt: Promise<BrokerConnection> | undefined;
  #failures = 0;
  #notBeforeMs = 0;
  /** Since the connection was lost that has not been replaced; told aloud once. */
  #outage: { readonly sinceMs: number; readonly alarm: Alarm; isTold: boolean } | undefined;
  #isClosed = false;

  constructor(address: string, context: LinkContext) {
    this.address = address;
    this.#context = context;
  }

  /** The open connection, after its Hello. */
  get current(): BrokerConnection | undefined {
    return this.#current?.isClosed === true ? undefined : this.#current;
  }

  watch(watcher: LinkWatcher): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** The open connection, or the outcome of one attempt to make one, begun when the back-off allows it. */
  get(): Promise<BrokerConnection> {
    if (this.current !== undefined) return Promise.resolve(this.current);
    // Somebody is told of its end right now and asks at once: the back-off begins when all have been told.
    if (this.#current !== undefined) return Promise.resolve().then(() => this.get());
    if (this.#isClosed) return Promise.reject(new OttlaError("CLOSED"));
    this.#attempt ??= this.#open().finally(() => {
      this.#attempt = undefined;
    });
    return this.#attempt;
  }

  /** As `get`; rejects with `code` when that takes longer than this. */
  getWithin(timeoutMs: number, code: "CONNECTION_FAILED" | "REQUEST_TIMED_OUT"): Promise<BrokerConnection> {
    const late = () => new OttlaError(code, `${this.address} takes no connection`);
    return this.#context.alarms.within(this.get(), timeoutMs, late);
  }

  /** What it owes is waited for no longer: over the next connection it is found out whether it is there. */
  renew(reason: string): void {
    void this.#current?.close(new OttlaError("CONNECTION_LOST", `${this.address}: ${reason}`));
  }

  /** Resolves when what was handed over is sent, soon at the latest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#outage?.alarm.cancel();
    const closed = new OttlaError("CLOSED", "the client was closed");
    await Promise.all([...this.#opening, this.#current].map((connection) => connection?.close(closed)));
  }

  async #open(): Promise<BrokerConnection> {
    const { alarms } = this.#context;
    const waitMs = this.#notBeforeMs - alarms.nowMs();
    if (waitMs > 0) await alarms.sleep(waitMs);
    try {
      const timedOut = () =>
        new OttlaError("CONNECTION_FAILED", `${this.address}: no answer in ${ATTEMPT_TIMEOUT_MS} ms`);
      return await alarms.within(this.#connect(), ATTEMPT_TIMEOUT_MS, timedOut);
    } catch (error) {
      this.#holdOff();
      throw connectFailure(this.address, error);
    }
  }

  /** May end after `#open` gave it up: then the late connection is dropped, or kept if it is still of use. */
  async #connect(): Promise<BrokerConnection> {
    const { transport, clientId } = this.#context;
    const connection = this.#start(await transport.connect(this.address));
    const unneeded = new OttlaError("CLOSED", "not needed any more");
    if (this.#isClosed) void connection.close(unneeded);
    else this.#opening.add(connection);
    try {
      await connection.hello(clientId, ATTEMPT_TIMEOUT_MS);
    } catch (error) {
      void connection.close(asOttlaError(error));
      throw error;
    } finally {
      this.#opening.delete(connection);
    }
    if (this.#isClosed || this.#current !== undefined) {
      void connection.close(unneeded);
      throw unneeded;
    }
    this.#current = connection;
    this.#context.logger.debug("broker_connected", { address: this.address });
    this.#endOutage();
    for (const watcher of this.#watchers) watcher.onOpen?.();
    return connection;
  }

  #start(raw: MessageConnection): BrokerConnection {
    const connection: BrokerConnection = new BrokerConnection(raw, {
      alarms: this.#context.alarms,
      events: {
        onClosed: (error) => this.#lost(connection, error),
        onDrain: () => {
          for (const watcher of this.#watchers) watcher.onDrain?.();
        },
      },
    });
    return connection;
  }

  #lost(connection: BrokerConnection, error: OttlaError): void {
    if (this.#current !== connection) return;
    this.#current = undefined;
    if (this.#context.alarms.nowMs() - connection.openedMs >= GOOD_MS) this.#failures = 0;
    this.#holdOff();
    this.#context.logger.debug("broker_connection_lost", { address: this.address, reason: error.message });
    this.#beginOutage(error);
  }

  #beginOutage(error: OttlaError): void {
    const { alarms, logger } = this.#context;
    if (this.#isClosed || this.#outage !== undefined) return;
    const alarm = alarms.after(OUTAGE_MS, () => {
      outage.isTold = true;
      logger.warn("broker_lost", { address: this.address, reason: error.message });
    });
    const outage = { sinceMs: alarms.nowMs(), alarm, isTold: false };
    this.#outage = outage;
  }

  #endOutage(): void {
    const outage = this.#outage;
    if (outage === undefined) return;
    outage.alarm.cancel();
    this.#outage = undefined;
    if (!outage.isTold) return;
    const afterMs = Math.round(this.#context.alarms.nowMs() - outage.sinceMs);
    this.#context.logger.info("broker_back", { address: this.address, afterMs });
  }

  #holdOff(): void {
    this.#failures++;
    this.#notBeforeMs = this.#context.alarms.nowMs() + backoffMs(this.#failures, this.#context.rng);
  }
}

function connectFailure(address: string, error: unknown): OttlaError {
  if (error instanceof TransportError) {
    const code = error.kind === "not-ottla" ? "PROTOCOL_ERROR" : "CONNECTION_FAILED";
    return new OttlaError(code, error.message, { cause: error });
  }
  if (error instanceof OttlaError && error.code !== "CONNECTION_LOST" && error.code !== "REQUEST_TIMED_OUT")
    return error;
  const message = error instanceof Error ? error.message : String(error);
  return new OttlaError("CONNECTION_FAILED", message.includes(address) ? message : `${address}: ${message}`, {
    cause: error,
  });
}
