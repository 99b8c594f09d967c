// Clients that quarrel about a few topic names and about configuration through the real admin client, and write down what they asked and were
// told: the histories of invariants 38 and 40. Names change with time, so that an operation of unknown outcome does not cloud a name for ever.
import type { Rng } from "../../base/rng.ts";
import type { Codecs } from "../../ports/codecs.ts";
import { VISIBLE_WITHIN_MS } from "../../checkers/metadata-visibility.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimNetwork } from "../network.ts";
import type { SimWorld } from "../world.ts";
import { MetadataClient } from "./metadata-client.ts";

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
    const pool = new NamePool(parts.world, this.#used);
    this.#clients = Array.from(
      { length: plan.clients },
      (_, index) => new MetadataClient(`admin-${index + 1}`, parts, { thinkMs: plan.thinkMs, pool }),
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

const NAMES_AT_ONCE = 3;
const NAMES_CHANGE_MS = 6000;

/** Which names are quarrelled about now. */
export class NamePool {
  readonly #world: SimWorld;
  readonly #used: Set<string>;

  constructor(world: SimWorld, used: Set<string>) {
    this.#world = world;
    this.#used = used;
  }

  /** Mostly one of now, sometimes one of before. */
  pick(rng: Rng): string {
    const now = Math.floor(this.#world.nowMs / NAMES_CHANGE_MS);
    const epoch = now > 0 && rng.chance(0.2) ? now - 1 : now;
    const name = `quarrel-${epoch}-${rng.below(NAMES_AT_ONCE)}`;
    this.#used.add(name);
    return name;
  }

  /** The last ones, oldest first. */
  get recent(): readonly string[] {
    return [...this.#used].slice(-3 * NAMES_AT_ONCE);
  }

  has(name: string): boolean {
    return this.#used.has(name);
  }
}
