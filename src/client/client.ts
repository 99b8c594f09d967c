// One client: its connections, its picture of the cluster, and what was made from it.
import { OttlaError } from "../model/errors.ts";
import { AdminImpl } from "./admin.ts";
import { orAborted } from "./aborted.ts";
import { Alarms } from "../link/alarms.ts";
import { BrokerPool } from "./broker-pool.ts";
import { type CallContext, retrying } from "./calls.ts";
import { CONNECT_CHECKS } from "./connect-options.ts";
import { ConsumerImpl } from "./consumer.ts";
import type { ClientContext, ClientDeps } from "./context.ts";
import { MetadataCache } from "./metadata-cache.ts";
import { aDuration, type Checks, checkOptions } from "./options.ts";
import { ProducerImpl } from "./producer.ts";
import type { Admin, Client, ConnectOptions, Consumer, ConsumerOptions, Producer, ProducerOptions } from "./types.ts";

export type { ClientDeps } from "./context.ts";

const DEFAULT_BROKERS = ["127.0.0.1:7070"];
const CONNECT_TIMEOUT_MS = 10_000;
/** Unless the caller has said how long to wait: nothing listens there, and seldom will in a moment. */
const REFUSED_TIMEOUT_MS = 3_000;
const CLOSE_TIMEOUT_MS = 5_000;

const CLOSE_CHECKS: Checks<{ timeoutMs?: number }> = { timeoutMs: aDuration("zero") };

/**
 * Resolves when the first broker answered. Rejects with CONNECTION_FAILED, PROTOCOL_ERROR or ABORTED. `onClosed`: it was handed out, and is closed.
 */
export async function openClient(
  deps: ClientDeps,
  options: ConnectOptions,
  onClosed: () => void = () => undefined,
): Promise<Client> {
  checkOptions("connect", options, CONNECT_CHECKS);
  if (options.signal?.aborted === true) throw new OttlaError("ABORTED");
  const alarms = new Alarms(deps);
  const { transport, rng, logger } = deps;
  const link = { transport, alarms, rng, logger, clientId: options.clientId ?? "ottla" };
  const pool = new BrokerPool(options.brokers ?? DEFAULT_BROKERS, link);
  const metadata = new MetadataCache({ alarms, pool, rng });
  const client = new ClientImpl({ ...deps, alarms, pool, metadata });
  try {
    await orAborted(reach({ alarms, rng, pool }, options.connectTimeoutMs), options.signal);
  } catch (error) {
    await client.close();
    throw error;
  }
  client.onClosed = onClosed;
  return client;
}

/** Resolves when any broker answered. */
function reach({ alarms, rng, pool }: CallContext, givenTimeoutMs: number | undefined): Promise<void> {
  const timeoutMs = givenTimeoutMs ?? CONNECT_TIMEOUT_MS;
  return new Promise((resolve, reject) => {
    let last: unknown;
    let wasOnlyRefused = true;
    const attempt = () =>
      pool.any().catch((error: unknown) => {
        last = error;
        wasOnlyRefused &&= pool.wasRefusedByAll;
        throw error;
      });
    const gaveUp = () => {
      const message = last instanceof Error ? last.message : `no answer in ${timeoutMs} ms`;
      return new OttlaError("CONNECTION_FAILED", message, { cause: last });
    };
    const early = alarms.after(REFUSED_TIMEOUT_MS, () => {
      if (givenTimeoutMs === undefined && last !== undefined && wasOnlyRefused) reject(gaveUp());
    });
    alarms
      .within(retrying({ alarms, rng }, alarms.nowMs() + timeoutMs, attempt), timeoutMs, gaveUp)
      .then(() => resolve(), reject)
      .finally(() => early.cancel());
  });
}

interface Closable {
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}

class ClientImpl implements Client {
  readonly #context: ClientContext;
  readonly #parts = new Set<Closable>();
  #closing: Promise<void> | undefined;
  onClosed: () => void = () => undefined;

  constructor(context: ClientContext) {
    this.#context = context;
  }

  producer(options: ProducerOptions = {}): Producer {
    this.#refuseClosed();
    const producer: ProducerImpl = new ProducerImpl(this.#context, options, () => this.#parts.delete(producer));
    this.#parts.add(producer);
    return producer;
  }

  consumer(options: ConsumerOptions): Consumer {
    this.#refuseClosed();
    const consumer: ConsumerImpl = new ConsumerImpl(this.#context, options, () => this.#parts.delete(consumer));
    // One that was told to end before it began ends nothing.
    if (options.signal?.aborted !== true) this.#parts.add(consumer);
    return consumer;
  }

  admin(): Admin {
    this.#refuseClosed();
    return new AdminImpl(this.#context);
  }

  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    checkOptions("close", options, CLOSE_CHECKS);
    this.#closing ??= this.#close(options.timeoutMs ?? CLOSE_TIMEOUT_MS);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    await Promise.allSettled([...this.#parts].map((part) => part.close({ timeoutMs })));
    await this.#context.pool.close();
    this.#context.alarms.close();
    this.onClosed();
  }

  #refuseClosed(): void {
    if (this.#closing !== undefined) throw new OttlaError("CLOSED", "the client was closed");
  }
}
