// One client: its connections, its picture of the cluster, and what was made from it.
import { OttlaError } from "../model/errors.ts";
import { AdminImpl } from "./admin.ts";
import { orAborted } from "./aborted.ts";
import { Alarms } from "./alarms.ts";
import { BrokerPool } from "./broker-pool.ts";
import { retrying } from "./calls.ts";
import { ConsumerImpl } from "./consumer.ts";
import type { ClientContext, ClientDeps } from "./context.ts";
import { MetadataCache } from "./metadata-cache.ts";
import { ProducerImpl } from "./producer.ts";
import type { Admin, Client, ConnectOptions, Consumer, ConsumerOptions, Producer, ProducerOptions } from "./types.ts";

export type { ClientDeps } from "./context.ts";

const DEFAULT_BROKERS = ["127.0.0.1:7070"];
const CONNECT_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 5_000;

/** Resolves when the first broker answered. Rejects with CONNECTION_FAILED, PROTOCOL_ERROR or ABORTED. */
export async function openClient(deps: ClientDeps, options: ConnectOptions): Promise<Client> {
  if (options.brokers?.length === 0) throw new OttlaError("INVALID_REQUEST", "`brokers` is empty: name at least one");
  const alarms = new Alarms(deps);
  const { transport, rng, logger } = deps;
  const link = { transport, alarms, rng, logger, clientId: options.clientId ?? "ottla" };
  const pool = new BrokerPool(options.brokers ?? DEFAULT_BROKERS, link);
  const metadata = new MetadataCache({ alarms, pool, rng });
  const client = new ClientImpl({ ...deps, alarms, pool, metadata });
  const timeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
  const reached = (async () => {
    const deadlineMs = alarms.nowMs() + timeoutMs;
    let last: unknown;
    const attempt = () =>
      pool.any().catch((error: unknown) => {
        last = error;
        throw error;
      });
    const gaveUp = () =>
      new OttlaError("CONNECTION_FAILED", last instanceof Error ? last.message : `no answer in ${timeoutMs} ms`, {
        cause: last,
      });
    await alarms.within(retrying({ alarms, rng }, deadlineMs, attempt), timeoutMs, gaveUp);
  })();
  try {
    await orAborted(reached, options.signal);
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}

interface Closable {
  close(options?: { readonly timeoutMs?: number }): Promise<void>;
}

class ClientImpl implements Client {
  readonly #context: ClientContext;
  readonly #parts = new Set<Closable>();
  #closing: Promise<void> | undefined;

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
    this.#parts.add(consumer);
    return consumer;
  }

  admin(): Admin {
    this.#refuseClosed();
    return new AdminImpl(this.#context);
  }

  close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? CLOSE_TIMEOUT_MS);
    return this.#closing;
  }

  async #close(timeoutMs: number): Promise<void> {
    await Promise.allSettled([...this.#parts].map((part) => part.close({ timeoutMs })));
    await this.#context.pool.close();
    this.#context.alarms.close();
  }

  #refuseClosed(): void {
    if (this.#closing !== undefined) throw new OttlaError("CLOSED", "the client was closed");
  }
}
