// What all kinds of faults share: where they happen, when, and whether they still may.
import type { Rng } from "../../base/rng.ts";
import type { SimCluster } from "../cluster.ts";
import type { HistoryEvent } from "../history.ts";
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
  readonly rng: Rng;
  /** False once all is to be mended: what was planned does not happen any more. */
  isActive = true;

  constructor(parts: NemesisParts, swarm: SwarmConfig) {
    this.world = parts.world;
    this.network = parts.network;
    this.cluster = parts.cluster;
    this.clients = parts.clients;
    this.record = parts.record;
    this.swarm = swarm;
    this.rng = parts.world.fork("nemesis");
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
    return -Math.log((this.rng.u32() + 1) / 2 ** 32) * meanMs;
  }

  /** Again and again, as often as this on average; 0: never. */
  every(meanMs: number, what: string, act: () => void): void {
    if (meanMs === 0) return;
    this.later(this.exponential(meanMs), what, () => {
      act();
      this.every(meanMs, what, act);
    });
  }

  later(delayMs: number, what: string, act: () => void): void {
    this.world.schedule({ delayMs, kind: "nemesis", detail: what }, () => {
      if (this.isActive) act();
    });
  }
}
