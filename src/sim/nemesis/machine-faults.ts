// Faults of machines and processes: death (D3, P1), power loss of one or several (D1, D2, D4), pauses (P2), clocks (C1).
import type { SimNode } from "../node.ts";
import type { Ground } from "./ground.ts";

const CRASH_LOOP_MAX = 5;
const PAUSE_MS = { least: 10, most: 120_000 };
const YEAR_MS = 365 * 86_400_000;
const DRIFT_MAX = 0.05;
/** Quartz: what a monotonic clock may run too fast or too slow. */
const MONO_DRIFT_MAX = 0.01;

export class MachineFaults {
  readonly #ground: Ground;
  readonly #onPowerLoss: (node: SimNode) => void;
  readonly #crashLoops = new Map<SimNode, number>();

  constructor(ground: Ground, onPowerLoss: (node: SimNode) => void) {
    this.#ground = ground;
    this.#onPowerLoss = onPowerLoss;
    const { faults } = ground.swarm;
    ground.every(faults.processDeathMs, "process death", () => this.#crashOne("process death"));
    ground.every(faults.powerLossMs, "power loss", () => this.#crashOne("power loss"));
    ground.every(faults.controllerDeathMs, "controller death", () => this.#crashController());
    ground.every(faults.leaderDeathMs, "leader death", () => this.#crashLeader());
    ground.every(faults.orderedRestartMs, "ordered restart", () => this.#stopInOrder());
    ground.every(faults.correlatedLossMs, "correlated power loss", () => this.#crashSeveral());
    ground.every(faults.pauseMs, "pause", () => this.#pause());
    // Once in every run, so that also those without faults see a restart.
    ground.later(ground.swarm.restartAtMs, "ordered restart", () =>
      ground.act("ordered restart", () => this.#stopInOrder()),
    );
    ground.every(faults.clockMs, "clock", () => this.#setClock());
    if (faults.clockMs === 0) return;
    for (const { machine } of ground.cluster.nodes)
      machine.monoRate = 1 + MONO_DRIFT_MAX * ((2 * ground.rng.u32()) / 2 ** 32 - 1);
  }

  crash(node: SimNode, kind: "process death" | "power loss"): void {
    this.#resume(node.name);
    node.crash(kind);
    if (kind === "power loss") this.#onPowerLoss(node);
  }

  /** A start is crashed again while it recovers, in some seeds (P1). */
  maybeCrashInRecovery(node: SimNode): void {
    const { rng, swarm, isActive } = this.#ground;
    const loops = this.#crashLoops.get(node) ?? 0;
    if (!isActive || loops >= CRASH_LOOP_MAX || !rng.chance(swarm.faults.crashInRecovery)) {
      this.#crashLoops.set(node, 0);
      return;
    }
    this.#crashLoops.set(node, loops + 1);
    this.#ground.later(rng.between(0, 200), "crash in recovery", () => {
      if (node.state !== "starting") return;
      this.#ground.act("crash in recovery", () => this.crash(node, rng.chance(0.5) ? "process death" : "power loss"));
    });
  }

  resumeAll(): void {
    const { cluster, clients } = this.#ground;
    for (const name of [...cluster.nodes.map((node) => node.name), ...clients]) this.#resume(name);
  }

  #resume(name: string): void {
    const machine = this.#ground.world.machine(name);
    if (machine.isPaused) this.#ground.world.resume(machine);
  }

  #crashOne(kind: "process death" | "power loss"): void {
    const node = this.#ground.rng.pick(this.#ground.cluster.nodes);
    if (node.state !== "down") this.crash(node, kind);
  }

  /** It is started again as any other that went down. */
  #stopInOrder(): void {
    const { rng, cluster, world } = this.#ground;
    const running = cluster.nodes.filter(({ state }) => state === "running");
    if (running.length === 0) return;
    world.countFault("ordered restart");
    void rng.pick(running).stop();
  }

  #crashController(): void {
    const node = this.#ground.cluster.controller;
    if (node === undefined || node.state === "down") return;
    this.#ground.world.countFault("P1 controller death");
    this.crash(node, this.#ground.rng.chance(0.7) ? "process death" : "power loss");
  }

  /** Of whoever leads some partition. */
  #crashLeader(): void {
    const { rng, cluster, world } = this.#ground;
    const { leaders } = cluster;
    if (leaders.length === 0) return;
    const node = rng.pick(leaders);
    if (node.state === "down") return;
    world.countFault("P1 death of a partition leader");
    this.crash(node, rng.chance(0.7) ? "process death" : "power loss");
  }

  /** D4: within a millisecond. */
  #crashSeveral(): void {
    const { rng, cluster, world } = this.#ground;
    const isAll = rng.chance(0.5);
    const some = cluster.nodes.filter(() => isAll || rng.chance(0.7));
    if (some.length > 1) world.countFault(isAll ? "D4 power loss of all" : "D4 power loss of several");
    for (const node of some)
      this.#ground.later(rng.u32() / 2 ** 32, "correlated power loss", () => {
        if (node.state !== "down") this.crash(node, "power loss");
      });
  }

  #pause(): void {
    const { rng, cluster, clients, world, network } = this.#ground;
    const name = rng.chance(0.85) ? rng.pick(cluster.nodes).name : rng.pick(clients);
    const machine = world.machine(name);
    if (machine.isPaused || machine.isOff) return;
    const lastsMs = PAUSE_MS.least * (PAUSE_MS.most / PAUSE_MS.least) ** (rng.u32() / 2 ** 32);
    world.countFault(
      lastsMs < 1000 ? "P2 pause below 1 s" : lastsMs < 10_000 ? "P2 pause below 10 s" : "P2 long pause",
    );
    world.pause(machine);
    network.paused(name, lastsMs);
    this.#ground.record({ type: "paused", timeMs: world.nowMs, node: name, untilMs: world.nowMs + lastsMs });
    this.#ground.later(lastsMs, "resume", () => this.#resume(name));
  }

  /** From a millisecond to a year, either way, and a drift; now and then back and forth several times. */
  #setClock(): void {
    const { rng, cluster, world } = this.#ground;
    const { machine } = rng.pick(cluster.nodes);
    const jumpMs = YEAR_MS ** (rng.u32() / 2 ** 32) * (rng.chance(0.5) ? 1 : -1);
    const rate = 1 + DRIFT_MAX * ((2 * rng.u32()) / 2 ** 32 - 1);
    world.countFault("C1 wall clock");
    machine.setWall(jumpMs, rate);
    const strobes = rng.chance(0.2) ? rng.between(2, 10) : 0;
    for (let count = 1; count <= strobes; count++)
      this.#ground.later(count * rng.between(1, 100), "strobe", () =>
        machine.setWall(count % 2 === 1 ? -jumpMs : jumpMs, rate),
      );
  }
}
