// Schedules that random seeds seldom meet: each is clean, and with its planted bug breaks the invariant that it names.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { NodeId } from "../../src/model/ids.ts";
import type { PartitionEffect } from "../../src/replication/types.ts";
import { Bench, brokerEpochOf, endsAt, epochsOf, fetchedBatch, leader, recordOf } from "./harness.ts";

afterEach(() => activateMutants([]));

type Effect = PartitionEffect<string, string>;
type Of<Kind extends Effect["kind"]> = Extract<Effect, { kind: Kind }>;

class Broken extends Error {
  constructor(invariant: number, what: string) {
    super(`invariant ${invariant}: ${what}`);
  }
}

/** Clean without the planted bug; with it the invariant is broken. */
function catches(id: string, invariant: number, schedule: () => void): void {
  test(`${id} breaks invariant ${invariant}`, () => {
    expect(schedule).not.toThrow();
    activateMutants([id]);
    expect(schedule).toThrow(new RegExp(`^invariant ${invariant}:`));
  });
}

/** 9: what a leader holds to be committed is durable on each member of the ISR as the controller has it. */
function checkCommitted(core: Bench["core"], durableEnds: ReadonlyMap<number, number>): void {
  for (const [node, durableEnd] of durableEnds)
    if (durableEnd < core.highWatermark)
      throw new Broken(9, `high watermark ${core.highWatermark}, node ${node} of the ISR is durable to ${durableEnd}`);
}

/** A follower core with a disk that syncs when it is told to. */
class Follower {
  readonly bench = new Bench(2);
  end: number;
  durableEnd: number;
  position: Of<"fetch"> | undefined;
  readonly reports: number[] = [];
  #truncations = 0;

  constructor(options: { readonly end: number; readonly durableEnd: number; readonly epochs: [number, number][] }) {
    this.end = options.end;
    this.durableEnd = options.durableEnd;
    const ends = { ...endsAt(this.end), durableEnd: endsAt(this.durableEnd).endOffset };
    this.bench.load({ ends, epochs: epochsOf(...options.epochs) });
  }

  follow(epoch: number): void {
    this.#carryOut(
      this.bench.core.step({ kind: "follow", record: recordOf({ leader: 1, epoch, isr: [1, 2] }), nowMs: 0 }),
    );
  }

  sync(): void {
    this.durableEnd = this.end;
    const { core } = this.bench;
    this.#carryOut(core.step({ kind: "durable", endOffset: core.endOffset, truncations: this.#truncations }));
  }

  /** Asks the leader, gets its answer at once; what it reports meanwhile stays in `reports`. */
  ask(leads: Bench): void {
    const asked = this.position;
    if (asked === undefined) throw new Error("no position is out");
    this.position = undefined;
    const [verdict = ""] = leads
      .fetch(2, asked.fetchOffset, { last: asked.lastFetchedEpoch })
      .filter((line) => line.startsWith("verdict"));
    this.#answered = { asked, verdict };
  }

  /** The answer to what was asked arrives. */
  hear(leads: Bench): void {
    const { asked, verdict } = this.#answered ?? { asked: undefined, verdict: "" };
    if (asked === undefined) throw new Error("nothing was asked");
    const diverging = /diverging (\d+) (\d+)/.exec(verdict);
    const { core } = leads;
    const from = asked.fetchOffset;
    const hasData = diverging === null && core.writtenEnd > from;
    const epoch = core.leaderEpoch;
    this.#carryOut(
      this.bench.core.step({
        kind: "fetched",
        leaderEpoch: epoch,
        fetchOffset: from,
        highWatermark: diverging === null ? core.highWatermark : -1,
        logStartOffset: 0,
        batches: hasData ? [fetchedBatch(from, core.writtenEnd - 1, epoch)] : [],
        diverging:
          diverging === null
            ? undefined
            : { epoch: Number(diverging[1]), endOffset: endsAt(Number(diverging[2])).endOffset },
        nowMs: 0,
      }),
    );
  }

  #answered: { readonly asked: Of<"fetch">; readonly verdict: string } | undefined;

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.kind === "fetch") this.position = effect;
      else if (effect.kind === "report") this.reports.push(effect.durableEnd);
      else if (effect.kind === "append-fetched") this.end = (effect.batches.at(-1)?.lastOffset ?? -1) + 1;
      else if (effect.kind === "truncate") this.#cut(effect.toOffset);
    }
  }

  #cut(to: number): void {
    this.end = to;
    this.durableEnd = Math.min(this.durableEnd, to);
    this.#truncations++;
    const { core } = this.bench;
    const epochs = core.epochs.filter(({ startOffset }) => startOffset < to);
    this.#carryOut(core.step({ kind: "truncated", ends: endsAt(to, this.#truncations), epochs }));
  }
}

describe("D-3: a report of before the validation", () => {
  catches("D-3", 9, () => {
    // Node 2 has [4, 9) of a leader that nobody else followed; node 1 leads in epoch 3 from 4 on.
    const leads = new Bench(1);
    leads.load({ end: 4, epochs: epochsOf([0, 0]) });
    leads.lead({ epoch: 3, isr: [1, 2], minIsr: 2 });
    const follows = new Follower({
      end: 9,
      durableEnd: 4,
      epochs: [
        [0, 0],
        [1, 4],
      ],
    });
    follows.follow(3);
    follows.ask(leads);
    // Its old bytes become durable before the leader's answer is there.
    follows.sync();
    for (const end of follows.reports.splice(0)) leads.report(2, end);
    follows.hear(leads);
    follows.ask(leads);
    leads.grow(5);
    follows.hear(leads);
    for (const end of follows.reports.splice(0)) leads.report(2, end);
    // It has the leader's [4, 9) now, not synced yet.
    follows.ask(leads);
    checkCommitted(leads.core, new Map([[2, follows.durableEnd]]));
    follows.hear(leads);
    follows.sync();
    for (const end of follows.reports.splice(0)) leads.report(2, end);
    expect(leads.core.highWatermark).toBe(9);
  });
});

describe("D-3, R-35: late bytes of a session of before the disk was lost", () => {
  catches("D-3s", 13, () => {
    const leads = leader({ isr: [1, 2], minIsr: 1 });
    leads.grow(9);
    leads.fetch(2, 9);
    // The report of 9 is on its way when node 2 loses its disk and registers anew, out of the ISR.
    leads.eligible = new Map([
      [1 as NodeId, brokerEpochOf(1)],
      [2 as NodeId, 300],
    ]);
    leads.record({ epoch: 1, isr: [1], replicas: [1, 2], partitionEpoch: 1 });
    const session = { session: 2, brokerEpoch: 300 };
    leads.fetch(2, 0, { ...session, last: -1 });
    leads.report(2, 9);
    // It has fetched everything and synced nothing.
    const durableEnd = 0;
    const effects = [...leads.fetch(2, 9, session), ...leads.tick(500)];
    if (effects.some((line) => line.startsWith("propose 1@101 2@300")))
      throw new Broken(13, `node 2 joins with ${durableEnd} of ${leads.core.highWatermark}`);
    expect(leads.report(2, 9, session)).toEqual(["propose 1@101 2@300 in 1/1"]);
  });
});

describe("R-37: an older record comes late", () => {
  catches("M12", 9, () => {
    const leads = leader({ isr: [1, 2, 3], minIsr: 2, partitionEpoch: 5 });
    leads.grow(4);
    leads.holds(2, 4);
    leads.record({ epoch: 1, isr: [1, 2], replicas: [1, 2, 3], minIsr: 2, partitionEpoch: 4 });
    checkCommitted(leads.core, new Map([[3, 0]]));
    expect(leads.holds(3, 4)).toContain("hw 4");
  });
});

describe("R-29: a new leader's high watermark is behind what was committed", () => {
  catches("M11", 13, () => {
    // [0, 8) was committed in epoch 0; node 1, now leading in epoch 1, knows it of [0, 4).
    const committedEnd = 8;
    const leads = new Bench(1);
    leads.load({ end: committedEnd, epochs: epochsOf([0, 0]), highWatermark: 4 });
    leads.lead({ epoch: 1, isr: [1, 2], replicas: [1, 2, 3], minIsr: 2 });
    leads.fetch(3, 8);
    const effects = leads.report(3, 5);
    if (effects.some((line) => line.startsWith("propose")))
      throw new Broken(13, `node 3 joins with 5 of ${committedEnd} committed`);
    expect(leads.report(3, 8)).toEqual(["propose 1@101 2@102 3@103 in 1/0"]);
  });
});

describe("D-9: a leader elected uncleanly lacks what was committed here", () => {
  catches("D-9", 12, () => {
    const follows = new Bench(2);
    follows.load({ end: 9, epochs: epochsOf([0, 0]), highWatermark: 7 });
    const record = recordOf({ leader: 1, epoch: 2, isr: [1], replicas: [1, 2], uncleanEpoch: 2 });
    follows.step({ kind: "follow", record, nowMs: 0 });
    const [effect = ""] = follows.fetched({ diverging: [0, 4] });
    if (effect.startsWith("truncate")) throw new Broken(12, `${effect}, 7 was known to be committed`);
    expect(effect).toContain("below the high watermark 7");
  });
});
