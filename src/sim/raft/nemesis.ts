// The faults of one seed: each kind at its own random times, each undone after a while.
import type { Rng } from "../../base/rng.ts";
import { assertNever } from "../../base/assert.ts";
import { majorityOf } from "../../raft/quorum.ts";
import { nodeIdOf, type ReplicaId } from "../../raft/types.ts";
import { RaftDisk } from "./disk.ts";
import type { RaftReplica } from "./replica.ts";
import { FAULTS, type FaultKind } from "./swarm.ts";
import type { Moment, RaftWorld } from "./world.ts";

export class RaftNemesis {
  readonly faults = new Map<FaultKind, number>();
  readonly #world: RaftWorld;
  readonly #rng: Rng;
  #isOver = false;

  constructor(world: RaftWorld, rng: Rng) {
    this.#world = world;
    this.#rng = rng;
    world.onDelicate = (replica, moment) => this.#maybeCrashAt(replica, moment);
    world.onCampaign = (replica) => this.#maybeRival(replica);
    for (const kind of FAULTS) if (world.swarm.faultMeanMs[kind] > 0) this.#schedule(kind);
  }

  stop(): void {
    this.#isOver = true;
  }

  #schedule(kind: FaultKind): void {
    const delayMs = this.#world.exponential(this.#rng, this.#world.swarm.faultMeanMs[kind]);
    this.#world.at(delayMs, () => {
      if (this.#isOver) return;
      this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
      this.#world.trace(() => `FAULT ${kind}`);
      this.#inflict(kind);
      this.#schedule(kind);
    });
  }

  #later(meanMs: number, act: () => void): void {
    this.#world.at(this.#world.exponential(this.#rng, meanMs), () => {
      if (!this.#isOver) act();
    });
  }

  get #live(): RaftReplica[] {
    return [...this.#world.replicas.values()].filter(({ isWiped }) => !isWiped);
  }

  get #leader(): RaftReplica | undefined {
    return this.#live
      .filter(({ core }) => core?.role === "leader")
      .reduce<RaftReplica | undefined>(
        (best, one) => (best === undefined || (one.core?.term ?? 0) > (best.core?.term ?? 0) ? one : best),
        undefined,
      );
  }

  #inflict(kind: FaultKind): void {
    const live = this.#live;
    const one = this.#rng.pick(live);
    switch (kind) {
      case "isolate":
        return this.#partition(([left, right]) => left === nodeIdOf(one.id) || right === nodeIdOf(one.id));
      case "halves": {
        const side = new Set(live.filter(() => this.#rng.chance(0.5)).map(({ id }) => nodeIdOf(id) as number));
        return this.#partition(([left, right]) => side.has(left) !== side.has(right));
      }
      case "oneWay": {
        const isDeaf = this.#rng.chance(0.5);
        return this.#partition(([from, to]) => (isDeaf ? to : from) === nodeIdOf(one.id));
      }
      case "bridge": {
        const half = live.length >> 1;
        const place = new Map(live.map(({ id }, at) => [nodeIdOf(id) as number, at]));
        return this.#partition(([from, to]) => {
          const [left, right] = [place.get(from) ?? 0, place.get(to) ?? 0];
          return left !== half && right !== half && left < half !== right < half;
        });
      }
      case "crash":
        return this.#crash(one);
      case "crashLeader":
        if (this.#leader !== undefined) this.#crash(this.#leader);
        return;
      case "powerLoss":
        for (const replica of live) if (this.#rng.chance(0.8)) this.#crash(replica);
        return;
      case "pause":
        one.pausedUntilMs = this.#world.timeMs + this.#rng.between(10, 4000);
        return;
      case "diskFailure":
        one.failDisk();
        return this.#later(800, () => one.repairDisk());
      case "transfer":
        return this.#transfer();
      case "member":
        return this.#changeMembers();
      case "wipe":
        return this.#wipe(one);
      default:
        return assertNever(kind);
    }
  }

  #partition(isCut: (pair: readonly [from: number, to: number]) => boolean): void {
    const nodes = this.#live.map(({ id }) => nodeIdOf(id) as number);
    for (const from of nodes) for (const to of nodes) if (from !== to && isCut([from, to])) this.#world.cut(from, to);
    this.#later(1500, () => this.#world.heal());
  }

  #crash(replica: RaftReplica, { restartMs = this.#rng.pick([5, 50, 1000]) } = {}): void {
    if (!replica.isUp) return;
    replica.crash();
    this.#world.trace(() => `${replica.id} crashes`);
    for (const other of this.#live)
      if (this.#rng.chance(this.#world.swarm.refusedChance)) {
        this.#world.at(this.#rng.below(50), () => other.input((core) => core.peerUnreachable(replica.id)));
      }
    this.#later(restartMs, () => {
      if (!replica.isUp && !replica.isWiped) replica.start();
    });
  }

  #maybeCrashAt(replica: RaftReplica, moment: Moment): void {
    const { crashAtVote, crashAtLead, crashAtInstall, syncMsMean } = this.#world.swarm;
    const chance = { vote: crashAtVote, lead: crashAtLead, install: crashAtInstall }[moment];
    if (this.#isOver || !this.#rng.chance(chance)) return;
    const { life } = replica;
    // A vote is lost only before its sync, and missed only if the node is back before the next one asks.
    const [meanMs, restartMs] = { vote: [0.3, 1], lead: [30, 50], install: [syncMsMean, 50] }[moment] as [
      number,
      number,
    ];
    this.#later(meanMs, () => {
      if (replica.life !== life) return;
      this.#world.mark(`crash at ${moment}`);
      this.#crash(replica, { restartMs });
    });
  }

  #maybeRival(replica: RaftReplica): void {
    const others = this.#live.filter((other) => other !== replica);
    if (this.#isOver || others.length === 0 || !this.#rng.chance(this.#world.swarm.rivalChance)) return;
    const rival = this.#rng.pick(others);
    this.#world.at(this.#rng.below(500) / 100, () => rival.input((core) => core.campaign()));
  }

  #transfer(): void {
    const leader = this.#leader;
    const voters = leader?.core?.configuration.voters ?? [];
    if (leader === undefined || voters.length === 0) return;
    const target = this.#rng.pick(voters);
    leader.input((core) => {
      if (core.transferLeadership(target).kind === "started") this.#world.mark("transfer started");
    });
  }

  /** Two at a time, as an impatient operator does: the second is refused while the first is not committed. */
  #changeMembers(): void {
    for (let count = 0; count < 2; count++) {
      const leader = this.#leader;
      const configuration = leader?.core?.configuration;
      if (leader === undefined || configuration === undefined) return;
      const { voters, learners } = configuration;
      const strangers = this.#live.map(({ id }) => id).filter((id) => !voters.includes(id) && !learners.includes(id));
      const dead = [...voters, ...learners].filter((id) => this.#world.replicas.get(id)?.isWiped === true);
      leader.input((core) => {
        const change = this.#pickChange({ voters, learners, strangers, dead });
        if (change === undefined) return;
        const { kind } = core.proposeConfChange(change);
        this.#world.mark(`${change.kind} ${kind}`);
        this.#world.trace(() => `${leader.id} ${change.kind} ${change.replica}: ${kind}`);
      });
    }
  }

  #pickChange(members: {
    readonly voters: readonly ReplicaId[];
    readonly learners: readonly ReplicaId[];
    readonly strangers: readonly ReplicaId[];
    readonly dead: readonly ReplicaId[];
  }): { readonly kind: "addLearner" | "promote" | "remove"; readonly replica: ReplicaId } | undefined {
    const { voters, learners, strangers, dead } = members;
    if (dead.length > 0 && this.#rng.chance(0.7)) return { kind: "remove", replica: this.#rng.pick(dead) };
    if (learners.length > 0 && this.#rng.chance(0.6)) return { kind: "promote", replica: this.#rng.pick(learners) };
    if (strangers.length > 0 && this.#rng.chance(0.7))
      return { kind: "addLearner", replica: this.#rng.pick(strangers) };
    if (voters.length > 3 || (voters.length > 1 && this.#rng.chance(0.3)))
      return { kind: "remove", replica: this.#rng.pick(voters) };
    return undefined;
  }

  /** The disk is lost, the node comes back with an empty one and another directory id. Never so many that a quorum is gone for ever. */
  #wipe(replica: RaftReplica): void {
    const configurations = this.#live.flatMap(({ core }) => (core === null ? [] : [core.configuration.voters]));
    const wouldLive = (voters: readonly ReplicaId[]): boolean =>
      voters.filter((id) => id !== replica.id && this.#world.replicas.get(id)?.isWiped === false).length >=
      majorityOf(voters.length);
    // Those that are down may hold a configuration that nobody up knows: only when all are up is it clear what is lost.
    if (
      this.#live.some(({ isUp }) => !isUp) ||
      !configurations.every((voters) => voters.length === 0 || wouldLive(voters))
    )
      return;
    replica.crash();
    replica.isWiped = true;
    this.#world.mark("disk wiped");
    const fresh = this.#world.addReplica(this.#world.newReplicaId(nodeIdOf(replica.id)), new RaftDisk());
    this.#later(200, () => {
      if (!fresh.isUp) fresh.start();
    });
  }
}
