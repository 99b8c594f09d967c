// What all kinds of faults share: where they happen, when, and whether they still may.
import type { Rng } from "../../base/rng.ts";
import type { SimCluster } from "../cluster.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimNetwork } from "../network.ts";
import type { SimNode } from "../node.ts";
import type { SwarmConfig } from "../swarm.ts";
import type { SimWorld } from "../world.ts";

export interface NemesisParts {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly cluster: SimCluster;
  readonly clients: readonly string[];
  readonly record: (event: HistoryEvent) => void;
}

export class Ground {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly cluster: SimCluster;
  readonly clients: readonly string[];
  readonly record: NemesisParts["record"];
  readonly swarm: SwarmConfig;
  /** False once all is to be mended: what was planned does not happen any more. */
  isActive = true;
  /** Names of the acts that happened, in order: the faults, each with all that comes of it. */
  readonly acts: string[] = [];
  readonly #counts = new Map<string, number>();
  readonly #allowed: ReadonlySet<string> | undefined;
  #rng: Rng;

  constructor(parts: NemesisParts, swarm: SwarmConfig) {
    this.world = parts.world;
    this.network = parts.network;
    this.cluster = parts.cluster;
    this.clients = parts.clients;
    this.record = parts.record;
    this.swarm = swarm;
    this.#allowed = swarm.acts === undefined ? undefined : new Set(swarm.acts);
    this.#rng = parts.world.fork("nemesis");
  }

  /** The stream of the act that runs now: what is left out, or comes in another order, does not change what the others draw. */
  get rng(): Rng {
    return this.#rng;
  }

  /** Nothing keeps what this node says from the others, nor them from writing it down. */
  isHeardByAll({ name, state, machine }: SimNode): boolean {
    const isFine = (node: SimNode): boolean =>
      node.state === "running" && !node.machine.isPaused && node.disk.faults.foreignBytes === 0;
    if (state !== "running" || machine.isPaused || !this.cluster.isSettled) return false;
    return this.cluster.nodes.every(
      (other) =>
        isFine(other) && !this.network.path(name, other.name).isCut && !this.network.path(other.name, name).isCut,
    );
  }

  exponential(meanMs: number): number {
    return exponential(this.rng, meanMs);
  }

  /** Again and again, as often as this on average; 0: never. */
  every(meanMs: number, what: string, act: () => void): void {
    if (meanMs === 0) return;
    const times = this.world.fork(`nemesis times of ${what}`);
    const next = (): void =>
      this.later(exponential(times, meanMs), what, () => {
        this.act(what, act);
        next();
      });
    next();
  }

  /** Does it with a stream of its own and a name to leave it out by, unless this run leaves it out. */
  act(what: string, act: () => void): void {
    const count = (this.#counts.get(what) ?? 0) + 1;
    this.#counts.set(what, count);
    const name = `${what}#${count}`;
    if (this.#allowed?.has(name) === false) return;
    this.acts.push(name);
    this.world.note("", "act", name);
    this.within(this.world.fork(`nemesis ${name}`), act);
  }

  /** What it draws, at once or later, comes from this stream. */
  within(rng: Rng, act: () => void): void {
    const before = this.#rng;
    this.#rng = rng;
    try {
      act();
    } finally {
      this.#rng = before;
    }
  }

  later(delayMs: number, what: string, act: () => void): void {
    const rng = this.#rng;
    this.world.schedule({ delayMs, kind: "nemesis", detail: what }, () => {
      if (this.isActive) this.within(rng, act);
    });
  }
}

function exponential(rng: Rng, meanMs: number): number {
  return -Math.log((rng.u32() + 1) / 2 ** 32) * meanMs;
}
