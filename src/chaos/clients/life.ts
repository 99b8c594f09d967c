// What all kinds of client processes need: the connection, the history, the counts, and how they are told to stop.
import { setTimeout as sleep } from "node:timers/promises";
import { createRng, type Rng } from "../../base/rng.ts";
import type { Client } from "../../client/types.ts";
import { openRealClient, stderrLogger } from "../../cli/client.ts";
import type { OttlaError } from "../../model/errors.ts";
import { createChecksum } from "../../platform/checksum.ts";
import type { Unstamped } from "../../checkers/history.ts";
import { HistoryWriter } from "../history-io.ts";
import type { ClientOrder, Counts, FromClient } from "./order.ts";

const CODECS = ["gzip", "snappy", "lz4", "zstd"] as const;
/** A cluster of a run is never away for longer. */
const CONNECT_MS = 120_000;

export class ClientLife {
  readonly order: ClientOrder;
  readonly rng: Rng;
  readonly checksum = createChecksum();
  isStopping = false;
  readonly #history: HistoryWriter;
  readonly #counts: Record<string, number> = {};
  readonly #stop = new AbortController();
  #operation: number;
  #client: Promise<Client> | undefined;

  constructor(order: ClientOrder) {
    this.order = order;
    this.rng = createRng(order.seed);
    this.#operation = order.firstOperation;
    this.#history = new HistoryWriter(order.historyFile);
  }

  client(): Promise<Client> {
    this.#client ??= openRealClient({
      brokers: this.order.brokers,
      clientId: this.order.process,
      connectTimeoutMs: CONNECT_MS,
      codecs: [...CODECS],
      logger: stderrLogger({ verbosity: -1, isJson: false }, {}, () => undefined),
    });
    return this.#client;
  }

  record(event: Unstamped): number {
    return this.#history.record(event);
  }

  nextOperation(): number {
    return this.#operation++;
  }

  count(what: string, by = 1): void {
    this.#counts[what] = (this.#counts[what] ?? 0) + by;
  }

  get counts(): Counts {
    return this.#counts;
  }

  /** Counted; a code that no client may ever get is a bug. */
  countError(what: string, error: OttlaError): void {
    this.count(`${what}: ${error.code}`);
    if (error.code === "UNKNOWN_SERVER_ERROR") tell({ kind: "bug", message: `${what}: ${error.message}` });
  }

  /** Shorter when it is told to stop. */
  async wait(delayMs: number): Promise<void> {
    await sleep(delayMs, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }

  stop(): void {
    this.isStopping = true;
    this.#stop.abort();
  }

  /** Calls back when it is told to stop; the returned function takes that back. */
  onStop(act: () => void): () => void {
    this.#stop.signal.addEventListener("abort", act);
    return () => this.#stop.signal.removeEventListener("abort", act);
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    await client?.close();
    this.#history.close();
  }
}

export function tell(message: FromClient): void {
  // The callback takes the error of a parent that ends just now.
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
}
