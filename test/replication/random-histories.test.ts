// Random histories: a follower of any past agrees with its leader in few rounds, and a leader whose messages are late, lost or of old sessions
// never believes to be committed what a member of the controller's ISR has not durably.
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { LeaderEpoch, NodeId, Offset } from "../../src/model/ids.ts";
import type { EpochStart, PartitionEffect, Verdict } from "../../src/replication/types.ts";
import { Bench, brokerEpochOf, endsAt, fetchedBatch, leader, recordOf } from "./harness.ts";

afterEach(() => activateMutants([]));

/** One record a batch. */
interface Entry {
  readonly epoch: number;
  readonly value: number;
}

/** A log as it came about by leaders that wrote alone, and followers that copied a part of it. */
interface PastLog {
  entries: Entry[];
  epochs: EpochStart[];
}

const NODES = 3;
const era = fc.record({
  leader: fc.nat(NODES - 1),
  writes: fc.nat(3),
  copies: fc.array(fc.record({ node: fc.nat(NODES - 1), count: fc.nat(6) }), { maxLength: 2 }),
});
type Era = typeof era extends fc.Arbitrary<infer T> ? T : never;

function commonPrefix(left: readonly Entry[], right: readonly Entry[]): number {
  let length = 0;
  while (length < left.length && left[length]?.value === right[length]?.value && length < right.length) length++;
  return length;
}

function openEpoch(log: PastLog, epoch: number): void {
  const startOffset = log.entries.length as Offset;
  log.epochs = log.epochs.filter((entry) => entry.startOffset < startOffset);
  log.epochs.push({ epoch: epoch as LeaderEpoch, startOffset });
}

function live(eras: readonly Era[]): PastLog[] {
  const logs = Array.from({ length: NODES }, (): PastLog => ({ entries: [], epochs: [] }));
  let value = 0;
  eras.forEach(({ leader: leading, writes, copies }, epoch) => {
    const source = logs[leading] as PastLog;
    openEpoch(source, epoch);
    for (let count = 0; count < writes; count++) source.entries.push({ epoch, value: value++ });
    for (const { node, count } of copies) {
      const target = logs[node] as PastLog;
      if (node === leading) continue;
      const keeps = commonPrefix(target.entries, source.entries);
      target.entries = source.entries.slice(0, keeps + count);
      target.epochs = source.epochs.filter(({ startOffset }) => startOffset < target.entries.length);
    }
  });
  return logs;
}

type Effect = PartitionEffect<string, string>;
type Position = Extract<Effect, { kind: "fetch" }>;

/** Follower 1 and leader 2 talk without delay until the follower has everything. */
class Conversation {
  readonly #source: readonly Entry[];
  readonly #leader = new Bench(2);
  readonly #follower = new Bench(1);
  log: Entry[];
  /** Answers of the leader. */
  rounds = 0;
  readonly cuts: number[] = [];
  #position: Position | undefined;

  constructor(leads: PastLog, follows: PastLog, epoch: number) {
    this.#source = leads.entries;
    this.#leader.load({ end: leads.entries.length, epochs: leads.epochs });
    this.#leader.lead({ epoch, leader: 2, isr: [2], replicas: [1, 2] });
    this.log = [...follows.entries];
    this.#follower.load({ end: this.log.length, epochs: follows.epochs });
    const record = recordOf({ leader: 2, epoch, isr: [1, 2] });
    this.#carryOut(this.#follower.core.step({ kind: "follow", record, nowMs: 0 }));
  }

  run(): this {
    for (let asked = this.#position; asked !== undefined && this.rounds < 100; asked = this.#position) {
      this.#position = undefined;
      this.rounds++;
      this.#answer(asked, this.#verdictOn(asked));
    }
    return this;
  }

  #verdictOn({ isFirst, leaderEpoch, fetchOffset, lastFetchedEpoch }: Position): Verdict {
    const effects = this.#leader.core.step({
      kind: "follower-fetch",
      follower: 1 as NodeId,
      brokerEpoch: 101,
      sessionId: 1,
      isAdded: isFirst,
      leaderEpoch,
      fetchOffset,
      lastFetchedEpoch,
      eligible: new Map(),
      nowMs: 0,
    });
    for (const effect of effects) if (effect.kind === "fetch-verdict") return effect.verdict;
    throw new Error("no verdict");
  }

  #answer({ leaderEpoch, fetchOffset }: Position, verdict: Verdict): void {
    if (verdict.kind === "refused") throw new Error(verdict.error);
    const isRead = verdict.kind === "read";
    const batches = (isRead ? this.#source.slice(fetchOffset, fetchOffset + 2) : []).map(({ epoch }, index) =>
      fetchedBatch(fetchOffset + index, fetchOffset + index, epoch),
    );
    const diverging = verdict.kind === "diverging" ? verdict : undefined;
    const highWatermark = isRead ? 0 : -1;
    this.#carryOut(
      this.#follower.core.step({
        kind: "fetched",
        leaderEpoch,
        fetchOffset,
        highWatermark,
        logStartOffset: 0,
        batches,
        diverging,
        nowMs: 0,
      }),
    );
  }

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.kind === "fetch") this.#position = effect;
      else if (effect.kind === "append-fetched")
        for (const { baseOffset, epoch } of effect.batches)
          this.log.push({ epoch, value: this.#source[baseOffset]?.value ?? -1 });
      else if (effect.kind === "truncate") this.#cut(effect.toOffset);
    }
  }

  #cut(to: number): void {
    this.log = this.log.slice(0, to);
    this.cuts.push(to);
    const { core } = this.#follower;
    const epochs = core.epochs.filter(({ startOffset }) => startOffset < to);
    this.#carryOut(core.step({ kind: "truncated", ends: endsAt(to, this.cuts.length), epochs }));
  }
}

describe("R-14, KIP-101, KIP-279: a follower with any past", () => {
  const histories = fc.array(era, { maxLength: 12 });

  test("ends with the leader's records, loses none that both had, and needs no more cuts than there are epochs", () => {
    fc.assert(
      fc.property(histories, (eras) => {
        const [follows, leads] = live(eras) as [PastLog, PastLog];
        const shared = commonPrefix(follows.entries, leads.entries);
        const { log, cuts, rounds } = new Conversation(leads, follows, eras.length).run();
        expect(log).toEqual(leads.entries);
        for (const cut of cuts) expect(cut).toBeGreaterThanOrEqual(shared);
        expect(cuts.length).toBeLessThanOrEqual(eras.length);
        expect(rounds).toBeLessThanOrEqual(eras.length + 1 + Math.ceil(leads.entries.length / 2) + 1);
      }),
      { numRuns: 2_000 },
    );
  });

  test("M6: without truncation some end with other records", () => {
    activateMutants(["M6"]);
    let differing = 0;
    for (const eras of fc.sample(histories, { numRuns: 300, seed: 1 })) {
      const [follows, leads] = live(eras) as [PastLog, PastLog];
      const { log } = new Conversation(leads, follows, eras.length).run();
      if (log.some(({ value }, offset) => leads.entries[offset]?.value !== value)) differing++;
    }
    expect(differing).toBeGreaterThan(10);
  });
});

/** A follower as it truly is. */
interface TrueFollower {
  readonly nodeId: NodeId;
  session: number;
  brokerEpoch: number;
  end: number;
  durableEnd: number;
}

interface Late {
  readonly follower: NodeId;
  readonly session: number;
  readonly deliver: () => void;
}

const command = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("grow" as const), count: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("keepUp" as const), node: fc.constantFrom(2, 3) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("fetch" as const), node: fc.constantFrom(2, 3) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("sync" as const), node: fc.constantFrom(2, 3) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("report" as const), node: fc.constantFrom(2, 3) }) },
  {
    weight: 12,
    arbitrary: fc.record({ kind: fc.constant("deliver" as const), node: fc.constantFrom(2, 3), isLate: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("session" as const), node: fc.constantFrom(2, 3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("wipe" as const), node: fc.constantFrom(2, 3) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("time" as const), ms: fc.constantFrom(20, 500, 500, 4_000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("decide" as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("learn" as const) }) },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;
type Proposal = Extract<PartitionEffect<string, string>, { kind: "propose-isr" }>;

/** Leader 1 with followers 2 and 3, a controller with compare-and-set, and links that are slow, break, and pass late bytes. */
class LeaderWorld {
  readonly bench = leader({ isr: [1, 2, 3], minIsr: 1 });
  readonly followers = [2, 3].map(
    (node): TrueFollower => ({
      nodeId: node as NodeId,
      session: 1,
      brokerEpoch: brokerEpochOf(node),
      end: 0,
      durableEnd: 0,
    }),
  );
  readonly late: Late[] = [];
  proposal: Proposal | undefined;
  /** Of the controller; the leader learns of it later. */
  record = recordOf({ epoch: 1, isr: [1, 2, 3], minIsr: 1 });
  unlearnt: (typeof this.record)[] = [];
  joined = 0;
  left = 0;

  run(one: Command): void {
    switch (one.kind) {
      case "grow":
        return this.#step(() => this.bench.grow(one.count));
      case "keepUp":
        return this.#keepUp(this.#find(one.node));
      case "fetch":
        return this.#fetch(this.#find(one.node));
      case "sync": {
        const follower = this.#find(one.node);
        follower.durableEnd = follower.end;
        return;
      }
      case "report":
        return this.#report(this.#find(one.node));
      case "deliver":
        return this.#deliver(one.node, one.isLate);
      case "session":
        this.#find(one.node).session++;
        return;
      case "wipe":
        return this.#wipe(this.#find(one.node));
      case "time":
        for (let passed = 0; passed < one.ms; passed += 500) this.#step(() => this.bench.tick(Math.min(one.ms, 500)));
        return;
      case "decide":
        return this.#decide();
      case "learn":
        return this.#learn();
    }
  }

  /** Invariants 9 and 13 as far as a leader can break them. */
  check(): void {
    const { highWatermark } = this.bench.core;
    for (const { nodeId, durableEnd } of this.followers)
      if (this.record.isr.includes(nodeId) && durableEnd < highWatermark)
        throw new Error(
          `node ${nodeId} in the ISR is durable to ${durableEnd}, the high watermark is ${highWatermark}`,
        );
  }

  #find(node: number): TrueFollower {
    return this.followers[node - 2] as TrueFollower;
  }

  #step(act: () => void): void {
    const before = this.bench.step;
    this.bench.step = (event) => {
      const effects = this.bench.core.step(event);
      for (const effect of effects) if (effect.kind === "propose-isr") this.proposal = effect;
      return [];
    };
    act();
    this.bench.step = before;
  }

  #fetch(follower: TrueFollower): void {
    const { nodeId, session, brokerEpoch, end } = follower;
    const last = end > 0 ? 1 : -1;
    const deliver = (): void => {
      this.#step(() => this.bench.fetch(nodeId, end, { session, brokerEpoch, last }));
      // The answer comes without delay, unless it is of an older session.
      const { writtenEnd } = this.bench.core;
      if (follower.session === session && follower.brokerEpoch === brokerEpoch && follower.end === end)
        follower.end = Math.min(writtenEnd, end + 6);
    };
    this.late.push({ follower: nodeId, session, deliver });
  }

  /** Everything that is under way in its session, then whatever it lacks, without delay. */
  #keepUp(follower: TrueFollower): void {
    const { length } = this.late;
    for (let count = 0; count < length; count++) this.#deliver(follower.nodeId, false);
    for (let round = 0; round < 4; round++) {
      this.#fetch(follower);
      this.#deliver(follower.nodeId, false);
    }
    follower.durableEnd = follower.end;
    this.#report(follower);
    this.#deliver(follower.nodeId, false);
  }

  #report({ nodeId, session, brokerEpoch, durableEnd }: TrueFollower): void {
    const deliver = (): void => this.#step(() => this.bench.report(nodeId, durableEnd, { session, brokerEpoch }));
    this.late.push({ follower: nodeId, session, deliver });
  }

  /** In order within a session; bytes of an old one at any time. */
  #deliver(node: number, isLate: boolean): void {
    const { session } = this.#find(node);
    const place = this.late.findIndex(
      (message) => message.follower === node && (message.session === session) !== isLate,
    );
    if (place >= 0) this.late.splice(place, 1)[0]?.deliver();
  }

  /** Another disk: a new incarnation, out of the ISR in the record that registers it. */
  #wipe(follower: TrueFollower): void {
    follower.end = 0;
    follower.durableEnd = 0;
    follower.brokerEpoch += 100;
    follower.session++;
    this.#change(this.record.isr.filter((nodeId) => nodeId !== follower.nodeId));
  }

  #change(isr: readonly NodeId[]): void {
    this.record = { ...this.record, isr, partitionEpoch: this.record.partitionEpoch + 1 };
    this.unlearnt.push(this.record);
  }

  #decide(): void {
    const { proposal } = this;
    if (proposal === undefined || proposal.wantsMove) return;
    this.proposal = undefined;
    if (proposal.partitionEpoch !== this.record.partitionEpoch) return;
    const isKnown = proposal.isr.every(
      ({ nodeId, brokerEpoch }) => nodeId === 1 || this.#find(nodeId).brokerEpoch === brokerEpoch,
    );
    if (!isKnown) {
      this.#step(() => this.bench.refusedChange(proposal.partitionEpoch, "INELIGIBLE_REPLICA"));
      return;
    }
    if (proposal.isr.length > this.record.isr.length) this.joined++;
    else this.left++;
    this.#change(proposal.isr.map(({ nodeId }) => nodeId));
  }

  #learn(): void {
    const record = this.unlearnt.shift();
    if (record === undefined) return;
    const { bench } = this;
    bench.eligible = new Map([
      [1 as NodeId, brokerEpochOf(1)],
      ...this.followers.map(({ nodeId, brokerEpoch }): [NodeId, number] => [nodeId, brokerEpoch]),
    ]);
    this.#step(() => bench.step({ kind: "record", record, eligible: bench.eligible, nowMs: bench.nowMs }));
  }
}

function runAll(commands: readonly Command[]): LeaderWorld {
  const world = new LeaderWorld();
  for (const one of commands) {
    world.run(one);
    world.check();
  }
  return world;
}

describe("D-3, R-30 to R-37: a leader among late, lost and old messages", () => {
  const histories = fc.array(command, { minLength: 50, maxLength: 300, size: "max" });

  test("invariants 9, 13: the high watermark is never above what a member of the controller's ISR has durably", () => {
    let joined = 0;
    let left = 0;
    let committed = 0;
    fc.assert(
      fc.property(histories, (commands) => {
        const world = runAll(commands);
        joined += world.joined;
        left += world.left;
        committed += world.bench.core.highWatermark;
      }),
      { numRuns: 400 },
    );
    expect(Math.min(joined, left, committed)).toBeGreaterThan(50);
  });

  test.each(["D-8", "M4", "M5", "M9", "M10"])("%s: the planted bug is found", (id) => {
    activateMutants([id]);
    const finds = fc.sample(histories, { numRuns: 300, seed: 7 }).some((commands) => {
      try {
        runAll(commands);
        return false;
      } catch {
        return true;
      }
    });
    expect(finds).toBe(true);
  });
});
