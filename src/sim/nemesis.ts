// The nemesis: breaks things at the rates that the seed drew, and starts dead processes again.
import type { Rng } from "../base/rng.ts";
import type { SimNetwork } from "./network.ts";
import type { SimNode } from "./node.ts";
import type { LinkQuality } from "./pipe.ts";
import type { SwarmConfig } from "./swarm.ts";
import type { SimWorld } from "./world.ts";

const CRASH_LOOP_MAX = 5;

export interface NemesisParts {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly nodes: readonly SimNode[];
  /** Called after each power loss, before the machine is used again. */
  readonly onPowerLoss: (node: SimNode) => void;
}

export class Nemesis {
  readonly #parts: NemesisParts;
  readonly #swarm: SwarmConfig;
  readonly #rng: Rng;
  readonly #crashLoops = new Map<SimNode, number>();
  #isActive = true;

  constructor(parts: NemesisParts, swarm: SwarmConfig) {
    this.#parts = parts;
    this.#swarm = swarm;
    this.#rng = parts.world.fork("nemesis");
  }

  start(): void {
    const { faults } = this.#swarm;
    this.#every(faults.processDeathMs, "process death", () => this.#crash("process death"));
    this.#every(faults.powerLossMs, "power loss", () => this.#crash("power loss"));
    this.#every(faults.failedSyncMs, "failed sync", () => this.#failSync());
    this.#every(faults.fullDiskMs, "full disk", () => this.#fillDisk());
    this.#every(faults.cutMs, "cut", () => this.#cut());
    this.#every(faults.slowLinkMs, "slow link", () => this.#slowLink());
  }

  /** Breaks nothing any more, mends everything. Processes that are down are started. */
  heal(): void {
    const { network, nodes } = this.#parts;
    this.#isActive = false;
    network.setLink(this.#swarm.link);
    network.heal();
    for (const { disk } of nodes)
      Object.assign(disk.faults, { failingSyncs: 0, failingDirectorySyncs: 0, foreignBytes: 0, openFailures: 0 });
    for (const node of nodes) if (node.state === "down") node.start();
  }

  /** Starts a node that went down, after a while; in some seeds it is crashed again while it recovers (P1). */
  supervise(node: SimNode): void {
    const { world } = this.#parts;
    const delayMs = this.#isActive ? this.#rng.between(20, 1500) : 100;
    world.schedule({ delayMs, kind: "restart", detail: node.name }, () => {
      if (node.state !== "down") return;
      node.start();
      this.#crashInRecovery(node);
    });
  }

  #crashInRecovery(node: SimNode): void {
    const loops = this.#crashLoops.get(node) ?? 0;
    if (!this.#isActive || loops >= CRASH_LOOP_MAX || !this.#rng.chance(this.#swarm.faults.crashInRecovery)) {
      this.#crashLoops.set(node, 0);
      return;
    }
    this.#crashLoops.set(node, loops + 1);
    const delayMs = this.#rng.between(0, 200);
    this.#parts.world.schedule({ delayMs, kind: "nemesis", detail: "crash in recovery" }, () => {
      if (this.#isActive && node.state === "starting")
        this.#crashNode(node, this.#rng.chance(0.5) ? "process death" : "power loss");
    });
  }

  #every(meanMs: number, what: string, act: () => void): void {
    if (meanMs === 0) return;
    const delayMs = -Math.log((this.#rng.u32() + 1) / 2 ** 32) * meanMs;
    this.#parts.world.schedule({ delayMs, kind: "nemesis", detail: what }, () => {
      if (!this.#isActive) return;
      act();
      this.#every(meanMs, what, act);
    });
  }

  #crash(kind: "process death" | "power loss"): void {
    const node = this.#rng.pick(this.#parts.nodes);
    if (node.state !== "down") this.#crashNode(node, kind);
  }

  #crashNode(node: SimNode, kind: "process death" | "power loss"): void {
    node.crash(kind);
    if (kind === "power loss") this.#parts.onPowerLoss(node);
  }

  /** D7, and now and then a power loss soon after, when what the sync lost is not visible any more. */
  #failSync(): void {
    const node = this.#rng.pick(this.#parts.nodes);
    if (this.#rng.chance(0.9)) node.disk.faults.failingSyncs++;
    else node.disk.faults.failingDirectorySyncs++;
    if (!this.#rng.chance(0.5)) return;
    this.#parts.world.schedule(
      { delayMs: this.#rng.between(1, 3000), kind: "nemesis", detail: "power loss after a failed sync" },
      () => {
        if (this.#isActive && node.state !== "down") this.#crashNode(node, "power loss");
      },
    );
  }

  /** D9: somebody else's bytes leave little or no room for a while. */
  #fillDisk(): void {
    const { disk } = this.#rng.pick(this.#parts.nodes);
    const leftBytes = this.#rng.chance(0.5) ? 0 : this.#rng.below(128 * 1024);
    disk.faults.foreignBytes = Math.max(0, disk.freeBytes - leftBytes);
    this.#parts.world.countFault("D9 disk filled");
    this.#parts.world.schedule({ delayMs: this.#rng.between(50, 2500), kind: "nemesis", detail: "disk freed" }, () => {
      disk.faults.foreignBytes = 0;
    });
  }

  #cut(): void {
    const cut = this.#rng.pick(["both", "one", "silent"] as const);
    if (this.#parts.network.cutOne(cut))
      this.#parts.world.countFault(
        `N2 cut, ${cut === "both" ? "both ends told" : cut === "one" ? "one end told" : "silent"}`,
      );
  }

  #slowLink(): void {
    const { network, world } = this.#parts;
    const slow: LinkQuality = {
      delayMs: this.#swarm.link.delayMs * this.#rng.between(2, 40),
      bandwidth: this.#rng.between(5, 200),
      windowBytes: 4096,
    };
    network.setLink(slow);
    world.countFault("N5 slow link");
    world.schedule({ delayMs: this.#rng.between(200, 3000), kind: "nemesis", detail: "link is fast again" }, () => {
      if (this.#isActive) network.setLink(this.#swarm.link);
    });
  }
}
