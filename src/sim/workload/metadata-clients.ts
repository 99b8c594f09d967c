// Clients that quarrel about a few topic names and about configuration through the real admin client, and write down what they asked and were
// told: the histories of invariants 38 and 40. Names change with time, so that an operation of unknown outcome does not cloud a name for ever.
import type { Rng } from "../../base/rng.ts";
import type { Codecs } from "../../ports/codecs.ts";
import { VISIBLE_WITHIN_MS } from "../../checkers/metadata-visibility.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimNetwork } from "../network.ts";
import { MetadataClient, type MetadataHost, NamePool } from "../../checkers/metadata-client.ts";
import { createSimTimers, type SimWorld } from "../world.ts";
import { openSimClient } from "./open-client.ts";

export interface MetadataWorkloadParts {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly codecs: Codecs;
  readonly record: (event: HistoryEvent) => void;
  readonly nextOperation: () => number;
  /** Addresses of all brokers. */
  readonly brokers: readonly string[];
  readonly nodes: readonly number[];
}

export interface MetadataPlan {
  readonly clients: number;
  /** Mean pause of a client between two operations. */
  readonly thinkMs: number;
}

export function drawMetadataPlan(rng: Rng): MetadataPlan {
  return { clients: rng.between(2, 4), thinkMs: rng.pick([60, 120, 250]) };
}

export class MetadataWorkload {
  isStopping = false;
  readonly #parts: MetadataWorkloadParts;
  readonly #clients: readonly MetadataClient[];
  readonly #used = new Set<string>();

  constructor(parts: MetadataWorkloadParts, plan: MetadataPlan) {
    this.#parts = parts;
    const pool = new NamePool(() => parts.world.nowMs, this.#used);
    this.#clients = Array.from(
      { length: plan.clients },
      (_, index) => new MetadataClient(hostOf(`admin-${index + 1}`, parts, { thinkMs: plan.thinkMs, pool })),
    );
  }

  /** Of its client processes. */
  get names(): readonly string[] {
    return this.#clients.map(({ name }) => name);
  }

  /** Operations that ended. */
  get operations(): number {
    return this.#clients.reduce((sum, client) => sum + client.operations, 0);
  }

  /** Until `isStopping`; resolves when its operations have ended. */
  async run(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.run(() => this.isStopping)));
  }

  /**
   * After `run` and after everything was mended at `healedMs` (which a "metadata healed" event of all nodes says): waits for as long as a node
   * may take to hear of a change, then asks each of them, and reads all that there is.
   */
  async finish(healedMs: number): Promise<void> {
    const [client] = this.#clients;
    if (client === undefined) return;
    const lastMs = Math.max(healedMs, ...this.#clients.map(({ endedMs }) => endedMs));
    await client.wait(Math.max(0, lastMs + VISIBLE_WITHIN_MS - this.#parts.world.nowMs) + 1);
    const names = [...this.#used].sort();
    for (const node of this.#parts.nodes) while (!(await client.look(node, names))) await client.wait(200);
    await Promise.all((await client.list()).map((topic) => client.readMarks(topic)));
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
  }
}

/** A process of the simulated world. */
function hostOf(
  name: string,
  parts: MetadataWorkloadParts,
  { thinkMs, pool }: { readonly thinkMs: number; readonly pool: NamePool },
): MetadataHost {
  const { world, nodes, record, nextOperation } = parts;
  const rng = world.fork(`workload ${name}`);
  const owner = world.startIncarnation(name);
  const timers = createSimTimers(world, owner);
  return {
    ...{ name, rng, pool, nodes, thinkMs, nextOperation },
    nowMs: () => world.nowMs,
    wait: (delayMs) => new Promise((resolve) => void timers.after(delayMs, resolve)),
    after: (delayMs, act) => timers.after(delayMs, act),
    connect: () => openSimClient(name, parts, owner, timers),
    record: (event) => record({ ...event, timeMs: world.nowMs }),
    sometimes: (what) => world.sometimes(what),
    fail: (error) => world.fail(error),
  };
}
