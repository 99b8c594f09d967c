// The nemesis: breaks things at the rates that the seed drew, and starts dead processes again.
import type { SimNode } from "../node.ts";
import type { SwarmConfig } from "../swarm.ts";
import { AtRestFaults } from "./at-rest-faults.ts";
import { DiskFaults } from "./disk-faults.ts";
import { Ground, type NemesisParts } from "./ground.ts";
import { MachineFaults } from "./machine-faults.ts";
import { NetworkFaults } from "./network-faults.ts";

const RESTART_MS = { least: 20, most: 1500 };
/** P3: within any session. */
const QUICK_RESTART_MS = 30;

export class Nemesis {
  readonly #ground: Ground;
  readonly #onPowerLoss: (node: SimNode) => void;
  /** Left down for ever. */
  readonly #dead = new Set<SimNode>();
  #restarts = 0;
  #machines: MachineFaults | undefined;
  #disks: DiskFaults | undefined;

  /** `onPowerLoss` is called after each one, before the machine is used again. */
  constructor(parts: NemesisParts, swarm: SwarmConfig, onPowerLoss: (node: SimNode) => void) {
    this.#ground = new Ground(parts, swarm);
    this.#onPowerLoss = onPowerLoss;
  }

  /** Names of what it did, in order. */
  get acts(): readonly string[] {
    return this.#ground.acts;
  }

  start(): void {
    const machines = new MachineFaults(this.#ground, this.#onPowerLoss);
    this.#machines = machines;
    this.#disks = new DiskFaults(this.#ground, machines);
    new AtRestFaults(this.#ground, machines);
    new NetworkFaults(this.#ground);
  }

  /** Nothing new breaks, all is mended; whoever is down is started, but for those that stay dead for now. */
  heal(dead: readonly SimNode[] = []): void {
    const { network, swarm, cluster } = this.#ground;
    this.#ground.isActive = false;
    this.#dead.clear();
    for (const node of dead) this.#dead.add(node);
    network.setLink(swarm.link);
    network.heal();
    this.#machines?.resumeAll();
    this.#disks?.heal();
    for (const node of cluster.nodes) {
      if (this.#dead.has(node)) node.crash("process death");
      else if (node.state === "down") node.start();
    }
  }

  /** Starts a node that went down, after a while; in some seeds it is crashed again while it recovers (P1). */
  supervise(node: SimNode): void {
    const { world, isActive, swarm } = this.#ground;
    const rng = world.fork(`restart ${node.name} ${this.#restarts++}`);
    const isQuick = isActive && rng.chance(swarm.faults.quickRestart);
    const delayMs = !isActive
      ? 100
      : isQuick
        ? rng.below(QUICK_RESTART_MS)
        : rng.between(RESTART_MS.least, RESTART_MS.most);
    world.schedule({ delayMs, kind: "restart", detail: node.name }, () => {
      if (node.state !== "down" || this.#dead.has(node) || node.isInRepair) return;
      if (isQuick) world.countFault("P3 restart within the session");
      node.start();
      this.#ground.within(rng, () => this.#machines?.maybeCrashInRecovery(node));
    });
  }
}
