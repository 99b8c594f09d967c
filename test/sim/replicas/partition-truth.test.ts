// Each rule of a partition's replicas with its anomaly planted by hand; a sound life of three of them breaks nothing.
import { describe, expect, it } from "vitest";
import type { NodeId } from "../../../src/model/ids.ts";
import type { PartitionRecord } from "../../../src/replication/types.ts";
import type { BatchSeen } from "../../../src/sim/replicas/epoch-truth.ts";
import { PartitionTruth, ReplicaBroken } from "../../../src/sim/replicas/partition-truth.ts";
import type { LogFound } from "../../../src/sim/replicas/replica-seen.ts";

const [N1, N2, N3] = [1, 2, 3] as NodeId[] as [NodeId, NodeId, NodeId];
const EMPTY: LogFound = { startOffset: 0, endOffset: 0, durableEnd: 0, epochs: [], highWatermark: 0 };

function recordOf(change: Partial<Record<keyof PartitionRecord, unknown>> = {}): PartitionRecord {
  const record = {
    leader: N1,
    leaderEpoch: 0,
    partitionEpoch: 0,
    replicas: [N1, N2, N3],
    isr: [N1, N2, N3],
    elr: [],
    minIsr: 2,
    uncleanEpoch: -1,
    ...change,
  };
  return record as unknown as PartitionRecord;
}

/** Three replicas of which node 1 leads in epoch 0. */
class Stage {
  readonly truth: PartitionTruth;

  constructor(record = recordOf()) {
    this.truth = new PartitionTruth("t-0", record);
    for (const node of [N1, N2, N3]) this.truth.opened(node, EMPTY);
    this.leads(N1, record);
  }

  leads(node: NodeId, record: PartitionRecord): this {
    this.truth.learned(node, record);
    this.truth.replica(node).leads = record.leaderEpoch;
    return this;
  }

  follows(node: NodeId): this {
    this.truth.replica(node).leads = undefined;
    return this;
  }

  /** Batches of one record each. */
  writes(node: NodeId, from: number, to: number, { epoch = 0, process = `life of ${node}` } = {}): this {
    for (let base = from; base < to; base++)
      this.truth.appended(node, batchAt(base, epoch), { process, leadsIn: epoch });
    return this;
  }

  copies(node: NodeId, from: number, to: number, epoch = 0, sum?: number): this {
    for (let base = from; base < to; base++)
      this.truth.appended(node, batchAt(base, epoch, sum), { process: `life of ${node}`, leadsIn: undefined });
    return this;
  }

  stands(node: NodeId, durableEnd: number, highWatermark: number): this {
    this.truth.stands(node, { startOffset: 0, durableEnd, highWatermark });
    return this;
  }

  /** Offsets below `end` are everywhere, durable and committed. */
  commits(end: number): this {
    this.writes(N1, 0, end).copies(N2, 0, end).copies(N3, 0, end);
    return this.stands(N2, end, 0).stands(N3, end, 0).stands(N1, end, end).stands(N2, end, end).stands(N3, end, end);
  }
}

function batchAt(base: number, epoch: number, sum = 100 * epoch + base): BatchSeen {
  return { base, last: base, epoch, sum };
}

/** Number of the invariant that breaks; undefined: none. */
function broken(act: () => unknown): number | undefined {
  try {
    act();
    return undefined;
  } catch (thrown) {
    if (thrown instanceof ReplicaBroken) return thrown.invariant;
    throw thrown;
  }
}

const MOVED = recordOf({ leader: N2, leaderEpoch: 1, partitionEpoch: 1, isr: [N2, N3], elr: [] });

describe("a sound life", () => {
  it("breaks nothing: records, a new leader, a cut, a restart, a return to the ISR", () => {
    const stage = new Stage().commits(5);
    const { truth } = stage;
    stage.writes(N1, 5, 7).copies(N3, 5, 6);
    truth.ended(N1);
    truth.changed(MOVED);
    stage.leads(N2, MOVED).writes(N2, 5, 8, { epoch: 1 });
    truth.truncates(N3, 5, true);
    stage.copies(N3, 5, 8, 1).stands(N3, 8, 5).stands(N2, 8, 8).stands(N3, 8, 8);
    truth.acknowledges(N2, 8);
    truth.opened(N1, {
      ...EMPTY,
      endOffset: 7,
      durableEnd: 5,
      epochs: [{ epoch: 0, startOffset: 0 }],
      highWatermark: 4,
    });
    truth.truncates(N1, 5, true);
    stage.copies(N1, 5, 8, 1).stands(N1, 8, 8);
    truth.proposes(1, 1, [N2, N3, N1]);
    truth.changed(recordOf({ leader: N2, leaderEpoch: 1, partitionEpoch: 2, isr: [N1, N2, N3] }));
    expect(truth.committedEnd).toBe(8);
    expect(truth.isVoid).toBe(false);
  });
});

describe("where records are", () => {
  it("says so of what is committed, and not of what is told of producers", () => {
    const told: BatchSeen = { ...batchAt(0, 0), told: { kind: "expired", producers: [] } };
    const { truth } = new Stage();
    const all = [told, batchAt(1, 0), { ...told, base: 2, last: 2 }, batchAt(3, 0)];
    for (const batch of all) {
      truth.appended(N1, batch, { process: "life of 1", leadsIn: 0 });
      for (const node of [N2, N3]) truth.appended(node, batch, { process: `life of ${node}`, leadsIn: undefined });
    }
    for (const node of [N2, N3, N1]) truth.stands(node, { startOffset: 0, durableEnd: 4, highWatermark: 0 });
    truth.stands(N1, { startOffset: 0, durableEnd: 4, highWatermark: 3 });
    const has = (from: number, to: number): boolean => truth.hasRecords(from, to);
    expect([has(0, 1), has(0, 2), has(1, 2), has(2, 3), has(2, 4)]).toEqual([false, true, true, false, false]);
    truth.stands(N1, { startOffset: 0, durableEnd: 4, highWatermark: 4 });
    expect([has(2, 3), has(2, 4), has(3, 4)]).toEqual([false, true, true]);
  });
});

describe("25: what a replica knows of producers is all there is to know", () => {
  const WITHOUT_N3 = recordOf({ partitionEpoch: 1, isr: [N1, N2] });

  /** Node 3 has lost its log and copies it again, one offset of it as compaction left it. */
  function copyingAgain(isCompacted: boolean): Stage {
    const stage = new Stage().commits(6);
    const { truth } = stage;
    truth.lost(N3);
    truth.changed(WITHOUT_N3);
    truth.registered(N3);
    truth.opened(N3, EMPTY);
    stage.copies(N3, 0, 2);
    const sum = isCompacted ? 999 : 2;
    const by = { process: "life of 3", leadsIn: undefined, areCompared: true, isEmpty: isCompacted };
    truth.appended(N3, batchAt(2, 0, sum), by);
    return stage;
  }

  it("on the way through a log that nobody compacted, and not through one where batches are gone that counted there", () => {
    const [whole, compacted] = [copyingAgain(false).truth, copyingAgain(true).truth];
    expect(whole.knowsAllProducers(whole.replica(N3))).toBe(true);
    expect(compacted.knowsAllProducers(compacted.replica(N3))).toBe(false);
    // Also in its next life, which reads what it copied.
    compacted.opened(N3, { ...EMPTY, endOffset: 3, durableEnd: 3, epochs: [{ epoch: 0, startOffset: 0 }] });
    expect(compacted.knowsAllProducers(compacted.replica(N3))).toBe(false);
    expect(compacted.knowsAllProducers(compacted.replica(N2))).toBe(true);
  });

  it("again once it is in sync, or leads", () => {
    const stage = copyingAgain(true).copies(N3, 3, 6).stands(N3, 6, 6);
    const { truth } = stage;
    truth.proposes(0, 1, [N1, N2, N3]);
    truth.changed(recordOf({ partitionEpoch: 2 }));
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(true);
    truth.changed(recordOf({ leader: N3, leaderEpoch: 1, partitionEpoch: 3, isr: [], elr: [N1, N2, N3] }));
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(false);
    truth.replica(N3).leads = 1;
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(true);
  });

  it("and not once nothing is promised any more: nobody follows what was committed (seed 604791180)", () => {
    const { truth } = copyingAgain(true).copies(N3, 3, 6).stands(N3, 6, 6);
    truth.proposes(0, 1, [N1, N2, N3]);
    truth.changed(recordOf({ partitionEpoch: 2 }));
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(true);
    truth.isVoid = true;
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(false);
  });

  it("and not where ranges may have been repaired from a compacted log", () => {
    const { truth } = copyingAgain(false);
    truth.mayBeRepaired(N3);
    expect(truth.knowsAllProducers(truth.replica(N3))).toBe(false);
  });
});

describe("what a replica writes", () => {
  it("1: nothing is acknowledged that is not committed", () => {
    expect(broken(() => new Stage().commits(5).truth.acknowledges(N1, 6))).toBe(1);
  });

  it("4: a batch goes where the log ends", () => {
    expect(broken(() => new Stage().writes(N1, 0, 2).writes(N1, 3, 4))).toBe(4);
    expect(broken(() => new Stage().writes(N1, 0, 2).writes(N1, 1, 2))).toBe(4);
  });

  it("5: a copy is what the epoch's leader wrote, behind what it had", () => {
    expect(broken(() => new Stage().writes(N1, 0, 2).copies(N2, 0, 1, 0, 77))).toBe(5);
    expect(broken(() => new Stage().copies(N2, 0, 1))).toBe(5);
    expect(
      broken(() => {
        const stage = new Stage().writes(N1, 0, 6).copies(N2, 0, 4).copies(N3, 0, 6);
        stage.truth.changed(MOVED);
        // Node 3 keeps a tail of epoch 0 that the leader of epoch 1 never had, and goes on behind it.
        stage.leads(N2, MOVED).writes(N2, 4, 8, { epoch: 1 }).copies(N3, 6, 8, 1);
      }),
    ).toBe(5);
  });

  it("6: epochs never fall, and a leader writes its own", () => {
    expect(broken(() => new Stage().writes(N1, 0, 1, { epoch: 3 }).copies(N1, 1, 2, 2))).toBe(6);
    expect(broken(() => new Stage().truth.appended(N1, batchAt(0, 1), { process: "p", leadsIn: 0 }))).toBe(6);
  });

  it("7: an epoch has one writer, who writes each offset once (D-1)", () => {
    expect(
      broken(() => {
        const stage = new Stage().writes(N1, 0, 2);
        stage.truth.opened(N1, { ...EMPTY, endOffset: 1, durableEnd: 0, epochs: [{ epoch: 0, startOffset: 0 }] });
        stage.leads(N1, recordOf()).writes(N1, 1, 2, { process: "second life of 1" });
      }),
    ).toBe(7);
  });

  it("7: what the disk had no room for nobody else has", () => {
    const stage = new Stage().writes(N1, 0, 4).copies(N2, 0, 2);
    expect(broken(() => stage.truth.tookBack(N1, 2))).toBeUndefined();
    expect(broken(() => stage.truth.tookBack(N1, 1))).toBe(7);
  });

  it("8: a leader of before acknowledges only what its successor has, once that one has committed", () => {
    const stage = new Stage().commits(5).writes(N1, 5, 7);
    stage.truth.changed(MOVED);
    stage.leads(N2, MOVED).writes(N2, 5, 6, { epoch: 1 }).copies(N3, 5, 6, 1).stands(N3, 6, 5);
    expect(broken(() => stage.truth.acknowledges(N1, 5))).toBeUndefined();
    stage.stands(N2, 6, 6);
    expect(broken(() => stage.truth.acknowledges(N1, 5))).toBeUndefined();
    expect(broken(() => stage.truth.acknowledges(N1, 6))).toBe(8);
    expect(broken(() => stage.truth.acknowledges(N1, 7))).toBe(8);
  });
});

describe("what a replica takes for committed", () => {
  it("9: no more than every member of the ISR has durably", () => {
    expect(broken(() => new Stage().writes(N1, 0, 2).copies(N2, 0, 2).stands(N2, 2, 0).stands(N1, 2, 2))).toBe(9);
  });

  it("9: nothing while fewer than min ISR are in sync", () => {
    const alone = recordOf({ isr: [N1], elr: [N2, N3], partitionEpoch: 1 });
    expect(
      broken(() => {
        const stage = new Stage();
        stage.truth.changed(alone);
        stage.leads(N1, alone).writes(N1, 0, 1).stands(N1, 1, 1);
      }),
    ).toBe(9);
  });

  it("9: a follower no more than a leader, and no more than it has", () => {
    expect(broken(() => new Stage().writes(N1, 0, 2).copies(N2, 0, 2).stands(N2, 2, 2))).toBe(9);
    expect(broken(() => new Stage().commits(5).stands(N3, 5, 6))).toBe(9);
  });

  it("3: what others take for committed", () => {
    const stage = new Stage().commits(2).writes(N1, 2, 3);
    stage.truth.changed(MOVED);
    stage.leads(N2, MOVED).writes(N2, 2, 3, { epoch: 1 }).copies(N3, 2, 3, 1).stands(N3, 3, 2).stands(N2, 3, 3);
    expect(broken(() => stage.truth.stands(N1, { startOffset: 0, durableEnd: 3, highWatermark: 3 }))).toBe(3);
  });

  it("13: who is in the ISR or the ELR has all that is committed", () => {
    const joins = (lacks: boolean): void => {
      const two = recordOf({ isr: [N1, N2], partitionEpoch: 1 });
      const stage = new Stage();
      stage.truth.changed(two);
      stage.leads(N1, two).writes(N1, 0, 4).copies(N2, 0, 4).copies(N3, 0, 4);
      stage
        .stands(N2, 4, 0)
        .stands(N3, lacks ? 3 : 4, 0)
        .stands(N1, 4, 4);
      stage.truth.proposes(0, 1, [N1, N2, N3]);
      stage.truth.changed(recordOf({ partitionEpoch: 2 }));
    };
    expect(broken(() => joins(false))).toBeUndefined();
    expect(broken(() => joins(true))).toBe(13);
  });
});

describe("what a replica cuts", () => {
  it("12: never what it knows to be committed, and only as a leader says", () => {
    const stage = new Stage().commits(5).writes(N1, 5, 7).copies(N2, 5, 7);
    expect(broken(() => stage.truth.truncates(N2, 4, true))).toBe(12);
    expect(broken(() => stage.truth.truncates(N2, 6, false))).toBe(12);
    expect(broken(() => stage.truth.truncates(N2, 6, true))).toBeUndefined();
  });

  it("13: nothing that is committed while it is counted on", () => {
    expect(broken(() => new Stage().commits(5).truth.dropped(N2, 0))).toBe(13);
  });

  it("16: after a restart it has what it took for durable", () => {
    const found = (durableEnd: number): number | undefined =>
      broken(() =>
        new Stage()
          .commits(5)
          .truth.opened(N2, { ...EMPTY, endOffset: durableEnd, durableEnd, epochs: [{ epoch: 0, startOffset: 0 }] }),
      );
    expect(found(5)).toBeUndefined();
    expect(found(4)).toBe(16);
  });

  it("16: it reports no more than it took for durable", () => {
    expect(broken(() => new Stage().truth.reports(N2, 6, 5))).toBe(16);
  });
});

describe("what the metadata decides", () => {
  it("6, 14: epochs rise", () => {
    expect(broken(() => new Stage().truth.changed(recordOf()))).toBe(14);
    expect(broken(() => new Stage(recordOf({ leaderEpoch: 4 })).truth.changed(recordOf({ partitionEpoch: 1 })))).toBe(
      6,
    );
    expect(broken(() => new Stage().truth.changed(recordOf({ leader: N2, partitionEpoch: 1 })))).toBe(6);
  });

  it("14: nobody joins but as the leader proposed of this very state", () => {
    const two = recordOf({ isr: [N1, N2], partitionEpoch: 3 });
    const joined = recordOf({ partitionEpoch: 4 });
    const after = (proposed: number): number | undefined =>
      broken(() => {
        const { truth } = new Stage(two);
        truth.proposes(0, proposed, [N3, N2, N1]);
        truth.changed(joined);
      });
    expect(after(3)).toBeUndefined();
    expect(after(2)).toBe(14);
  });

  it("15: who is elected was in the ISR or the ELR, or an operator said so", () => {
    const dead = recordOf({ leader: null, leaderEpoch: 1, partitionEpoch: 1, isr: [], elr: [N1, N2] });
    const elected = (leader: NodeId, uncleanEpoch = -1): number | undefined =>
      broken(() => {
        const stage = new Stage();
        stage.truth.changed(dead);
        stage.truth.changed(
          recordOf({ leader, leaderEpoch: 2, partitionEpoch: 2, isr: [leader], elr: [], uncleanEpoch }),
        );
      });
    expect(elected(N2)).toBeUndefined();
    expect(elected(N3)).toBe(15);
    expect(elected(N3, 2)).toBeUndefined();
  });

  it("15: who is elected has all that is committed", () => {
    const stage = new Stage().commits(5);
    stage.truth.replica(N2).durableEnd = 4;
    expect(broken(() => stage.truth.changed(MOVED))).toBe(15);
  });
});

describe("what the atlas excuses", () => {
  it("a lost disk: its replica counts no more, and the others go on", () => {
    const stage = new Stage().commits(5);
    stage.truth.lost(N2);
    expect(stage.truth.isVoid).toBe(false);
    expect(broken(() => stage.truth.opened(N2, EMPTY))).toBeUndefined();
    const without = recordOf({ isr: [N1, N3], partitionEpoch: 1 });
    stage.truth.changed(without);
    stage.leads(N1, without).writes(N1, 5, 6).copies(N3, 5, 6).stands(N3, 6, 5);
    expect(broken(() => stage.stands(N1, 6, 6))).toBeUndefined();
  });

  it("every disk that counted lost: the partition is void", () => {
    const { truth } = new Stage(recordOf({ isr: [N1, N2], elr: [] })).commits(5);
    truth.lost(N1);
    expect(truth.isVoid).toBe(false);
    truth.lost(N2);
    expect(truth.isVoid).toBe(true);
    expect(truth.hasCopy).toBe(false);
  });

  it("a lost disk that is back with everything counts again", () => {
    const stage = new Stage().commits(5);
    const { truth } = stage;
    truth.lost(N2);
    truth.changed(recordOf({ isr: [N1, N3], partitionEpoch: 1 }));
    truth.opened(N2, EMPTY);
    truth.proposes(0, 1, [N1, N2, N3]);
    truth.registered(N2);
    expect(broken(() => truth.changed(recordOf({ partitionEpoch: 2 })))).toBe(13);
  });

  it("a lost disk that the metadata does not know of: it may be admitted by a proposal of before", () => {
    const stage = new Stage().commits(5);
    const { truth } = stage;
    truth.changed(recordOf({ isr: [N1, N3], partitionEpoch: 1 }));
    truth.proposes(0, 1, [N1, N2, N3]);
    truth.lost(N2);
    truth.opened(N2, EMPTY);
    expect(broken(() => truth.changed(recordOf({ partitionEpoch: 2 })))).toBeUndefined();
    expect(broken(() => truth.registered(N2))).toBeUndefined();
  });

  describe("a log that was lost behind its report", () => {
    const two = recordOf({ isr: [N1, N2], partitionEpoch: 1 });
    const without = recordOf({ isr: [N1], partitionEpoch: 2, leaderEpoch: 1 });
    const again = recordOf({ isr: [N1, N2], partitionEpoch: 3, leaderEpoch: 1 });

    /** Node 1 has [0, 6), node 2 had [0, 4) and lost it. */
    function lost(): Stage {
      const stage = new Stage(two).writes(N1, 0, 6).copies(N2, 0, 4).stands(N2, 4, 0);
      stage.truth.lost(N2);
      return stage;
    }

    /** The metadata knows, and node 2 has begun anew. */
    function begunAnew(): Stage {
      const stage = lost();
      stage.truth.changed(without);
      stage.truth.registered(N2);
      stage.truth.opened(N2, EMPTY);
      return stage;
    }

    it("commits by it, as long as the leader has not heard that it counts no more", () => {
      for (const stage of [lost(), begunAnew()]) {
        expect(broken(() => stage.stands(N1, 6, 4))).toBeUndefined();
        expect(stage.truth.committedEnd).toBe(4);
        expect(stage.truth.isVoid).toBe(false);
      }
    });

    it("9: never commits more than it had", () => {
      for (const stage of [lost(), begunAnew()]) expect(broken(() => stage.stands(N1, 6, 5))).toBe(9);
    });

    it("commits by it where a proposal of before brought it back, until the metadata knows", () => {
      const three = recordOf({ isr: [N1, N2, N3], partitionEpoch: 2 });
      const stage = new Stage(recordOf({ isr: [N1, N3], partitionEpoch: 1 })).writes(N1, 0, 4);
      stage.copies(N2, 0, 4).copies(N3, 0, 4).stands(N2, 4, 0).stands(N3, 4, 0);
      stage.truth.proposes(0, 1, [N1, N2, N3]);
      stage.truth.lost(N2);
      stage.truth.changed(three);
      expect(broken(() => stage.leads(N1, three).stands(N1, 4, 4))).toBeUndefined();
    });

    it("9: commits nothing where a newer record counts the log that took its place", () => {
      const stage = begunAnew();
      stage.truth.proposes(1, 2, [N1, N2]);
      stage.truth.changed(again);
      expect(broken(() => stage.leads(N1, again).stands(N1, 6, 4))).toBe(9);
    });

    it("9: commits nothing that the leader has otherwise", () => {
      const other = recordOf({ leader: N2, leaderEpoch: 1, partitionEpoch: 2, isr: [N1, N2] });
      const stage = new Stage(two).writes(N1, 0, 6).copies(N2, 0, 2);
      stage.truth.changed(other);
      stage.leads(N2, other).writes(N2, 2, 6, { epoch: 1 }).stands(N2, 6, 0);
      stage.truth.lost(N2);
      expect(broken(() => stage.stands(N1, 6, 4))).toBe(9);
      expect(broken(() => stage.stands(N1, 6, 2))).toBeUndefined();
    });
  });

  it("an unclean election: what was committed is checked no more", () => {
    const { truth } = new Stage().commits(5);
    truth.changed(recordOf({ leader: N2, leaderEpoch: 1, partitionEpoch: 1, isr: [N2], uncleanEpoch: 1 }));
    expect(truth.isVoid).toBe(true);
  });
});

it("what was deleted below the start of an empty log is all that began below it, also the batch that the start lies in (732010650)", () => {
  const stage = new Stage();
  const { truth } = stage;
  const process = "life of 1";
  for (const [base, last] of [
    [0, 0],
    [1, 3],
    [4, 4],
  ] as const)
    for (const node of [N1, N2, N3])
      truth.appended(node, { base, last, epoch: 0, sum: base }, { process, leadsIn: node === N1 ? 0 : undefined });
  stage.stands(N2, 5, 0).stands(N3, 5, 0).stands(N1, 5, 5);
  truth.stands(N3, { startOffset: 2, durableEnd: 5, highWatermark: 5 });
  truth.restarted(N3, 2);
  expect(truth.batchesOf(N3).map(({ base }) => base)).toEqual([0, 1]);
  expect(truth.batchesOf(N2).map(({ base }) => base)).toEqual([0, 1, 4]);
});
