// Invariant 20 inside the cluster: what may become of a log is said nothing of, each way to take more, or something else, is found.
import { describe, expect, it } from "vitest";
import { createSimHost } from "../../../scripts/sim-host.ts";
import { concatBytes, utf8Encode } from "../../../src/base/bytes.ts";
import { assignOffsets, sealBatch } from "../../../src/model/batch-header.ts";
import { CLEANUP } from "../../../src/model/config-values.ts";
import { RecordBatchBuilder } from "../../../src/model/records.ts";
import { LogLife, type LifeLook } from "../../../src/sim/replicas/log-life.ts";
import { RecordTruth } from "../../../src/sim/replicas/record-truth.ts";
import type { ReplicaLog, SegmentView } from "../../../src/storage/types.ts";

const host = await createSimHost();
const WRITTEN_MS = 1000;
const NOW_MS = 20_000;

interface Made {
  readonly offset: number;
  readonly key: string;
  readonly value: string | null;
}

/** One record each, at its offset. */
function batchOf({ offset, key, value }: Made): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
  builder.tryAppend({
    key: utf8Encode(key),
    value: value === null ? null : utf8Encode(value),
    headers: [],
    timestamp: WRITTEN_MS,
  });
  const bytes = builder.build({ compression: "none", codecs: host.codecs, checksum: host.checksum });
  assignOffsets(bytes, offset, 0);
  return bytes;
}

/** The batch of that offset without its record. */
function emptied(offset: number, last = offset): Uint8Array {
  const bytes = batchOf({ offset, key: "x", value: "x" }).slice(0, 61);
  const view = new DataView(bytes.buffer);
  view.setInt32(8, 61 - 12);
  view.setInt32(23, last - offset);
  view.setInt32(57, 0);
  sealBatch(bytes, host.checksum);
  return bytes;
}

const RECORDS: readonly Made[] = [
  { offset: 0, key: "a", value: "1" },
  { offset: 1, key: "b", value: "1" },
  { offset: 2, key: "a", value: "2" },
  { offset: 3, key: "b", value: null },
];

class Stage {
  readonly marks = new Set<string>();
  readonly life: LogLife;
  #views: readonly SegmentView[] = [];
  readonly log = {
    startOffset: 0,
    endOffset: 10,
    segmentViews: () => this.#views,
  } as unknown as ReplicaLog;
  #bytes: Uint8Array = new Uint8Array(0);

  constructor({ isCompacted }: { readonly isCompacted: boolean }) {
    const truth = new RecordTruth({ checksum: host.checksum, codecs: host.codecs });
    for (const record of RECORDS) truth.wrote(batchOf(record), 0, WRITTEN_MS);
    this.life = new LogLife(isCompacted ? truth : undefined, (mark) => void this.marks.add(mark));
  }

  /** Segments [0, 4), which holds these, and [4, 10). */
  holds(batches: readonly Uint8Array[]): this {
    this.#bytes = concatBytes(batches);
    return this.segments([0, 4, this.#bytes.length], [4, 10, 1000]);
  }

  segments(...segments: readonly (readonly [number, number, number, number?])[]): this {
    this.#views = segments.map(([base, endOffset, sizeBytes, maxTimestamp = WRITTEN_MS]) => ({
      base,
      endOffset,
      sizeBytes,
      maxTimestamp,
      createdMs: 0,
    })) as unknown as readonly SegmentView[];
    return this;
  }

  /** The message; undefined: nothing was broken. */
  look(how: Partial<LifeLook> = {}, isClose = true): string | undefined {
    const settings = {
      cleanupPolicy: CLEANUP.DELETE,
      retentionMs: 5000,
      retentionBytes: -1,
      deleteRetentionMs: 100,
    } as LifeLook["settings"];
    const { log } = this;
    const bytesOf = (): Uint8Array => this.#bytes;
    const isCommitted = ({ offset }: { readonly offset: number }): boolean => offset < 4;
    const standing = { startOffset: 0, highWatermark: 10, isLeader: true, nowMs: NOW_MS, trueMs: NOW_MS };
    let found: string | undefined;
    try {
      this.life.look({ log, settings, bytesOf, isCommitted, ...standing, ...how }, { isClose }, (message) => {
        found = message;
        throw new Error(message);
      });
    } catch (thrown) {
      if (found === undefined) throw thrown;
    }
    return found;
  }
}

describe("where a log begins", () => {
  const stage = (): Stage => {
    const made = new Stage({ isCompacted: false }).segments([0, 4, 100], [4, 10, 1000]);
    expect(made.look()).toBeUndefined();
    return made;
  };

  it("S-26: rises to a segment whose records are all old enough, or behind which enough is left", () => {
    expect(stage().look({ startOffset: 4 })).toBeUndefined();
    expect(stage().look({ startOffset: 4, trueMs: WRITTEN_MS + 4000 })).toContain("neither old enough");
    const bySize = { retentionMs: -1, retentionBytes: 900, cleanupPolicy: CLEANUP.DELETE } as LifeLook["settings"];
    expect(stage().look({ startOffset: 4, settings: bySize })).toBeUndefined();
    expect(stage().look({ startOffset: 4, settings: { ...bySize, retentionBytes: 2000 } })).toContain("neither");
    expect(stage().look({ startOffset: 4, trueMs: undefined, settings: bySize })).toBeUndefined();
  });

  /** The first segment is younger than the second. */
  const outOfOrder = (): Stage => {
    const made = new Stage({ isCompacted: false });
    made.segments([0, 4, 100, WRITTEN_MS + 4000], [4, 8, 100], [8, 10, 1000]);
    expect(made.look()).toBeUndefined();
    return made;
  };

  it("S-26: the age of a segment that went by size is not asked for again when the next one goes by age (seed 78541010)", () => {
    const bySize = { retentionMs: -1, retentionBytes: 900, cleanupPolicy: CLEANUP.DELETE } as LifeLook["settings"];
    const tooYoung = outOfOrder();
    expect(tooYoung.look({ startOffset: 4, settings: bySize }, false)).toBeUndefined();
    expect(tooYoung.look({ startOffset: 8, trueMs: WRITTEN_MS + 4000 }, false)).toContain("segment of 4 is neither");
    const oldEnough = outOfOrder();
    expect(oldEnough.look({ startOffset: 4, settings: bySize }, false)).toBeUndefined();
    expect(oldEnough.look({ startOffset: 8, trueMs: WRITTEN_MS + 6000 }, false)).toBeUndefined();
  });

  it("S-26: one pass lets some go by size and the next by age (seed 302215003)", () => {
    const both = { retentionMs: 5000, retentionBytes: 1050, cleanupPolicy: CLEANUP.DELETE } as LifeLook["settings"];
    const look = { startOffset: 8, trueMs: WRITTEN_MS + 6000 };
    expect(outOfOrder().look({ ...look, settings: both }, false)).toBeUndefined();
    const tooMuch = { ...both, retentionBytes: 1101 };
    expect(outOfOrder().look({ ...look, settings: tooMuch }, false)).toContain("segment of 0 is neither");
  });

  it("S-27, S-29: never above the high watermark, within a segment, nor where the policy is not to delete", () => {
    expect(stage().look({ startOffset: 4, highWatermark: 3 })).toContain("high watermark");
    expect(stage().look({ startOffset: 3 })).toContain("no segment begins there");
    expect(stage().look({ startOffset: 7 })).toBeUndefined();
    const compact = { cleanupPolicy: CLEANUP.COMPACT } as LifeLook["settings"];
    expect(stage().look({ startOffset: 4, settings: compact })).toContain("policy");
  });

  it("D-15: where the log ended when its leader told of producers, however late that is committed (seed 624000095)", () => {
    const told = stage();
    told.life.tells(3);
    expect(told.look({ startOffset: 3 })).toBeUndefined();
    expect(told.look({ startOffset: 2 })).toContain("begins at 2");
  });

  it("S-30: anywhere that somebody asked for", () => {
    const asked = stage();
    asked.life.mayTrim(3);
    expect(asked.look({ startOffset: 3 })).toBeUndefined();
    expect(asked.look({ startOffset: 2 })).toContain("began at 3");
  });

  it("a follower's begins where a leader's does, at most", () => {
    expect(stage().look({ startOffset: 4, isLeader: false })).toContain("no leader's");
    const led = stage();
    led.look({ startOffset: 4 });
    const follower = { ...led.log } as ReplicaLog;
    led.look({ log: follower, isLeader: false });
    expect(led.look({ log: follower, startOffset: 4, isLeader: false })).toBeUndefined();
  });

  it("segments have no gap, and none begins above the start", () => {
    expect(new Stage({ isCompacted: false }).segments([0, 4, 1], [5, 10, 1]).look()).toContain("ends at 4");
    expect(new Stage({ isCompacted: false }).segments([4, 10, 1]).look()).toContain("first segment at 4");
  });
});

describe("what compaction leaves", () => {
  const whole = RECORDS.map(batchOf);
  const [first, second, third, tombstone] = whole as [Uint8Array, Uint8Array, Uint8Array, Uint8Array];
  const stage = (...batches: readonly Uint8Array[]): Stage => new Stage({ isCompacted: true }).holds(batches);

  it("is all, or all but what a later record of the key made old", () => {
    expect(stage(...whole).look()).toBeUndefined();
    expect(stage(emptied(0, 1), third, tombstone).look()).toBeUndefined();
    expect(stage(emptied(0), second, third, tombstone).look()).toBeUndefined();
  });

  it("S-36: has the last record of each key", () => {
    expect(stage(first, second, emptied(2), tombstone).look()).toContain("last record of key a");
  });

  it("S-33: has what only a record that is not committed makes old", () => {
    const isCommitted = ({ offset }: { readonly offset: number }): boolean => offset < 2;
    expect(stage(emptied(0), second, third, tombstone).look({ isCommitted })).toContain("last record of key a");
  });

  it("S-37: loses a record without a value after its time, and nothing comes back then", () => {
    const gone = stage(emptied(0, 1), third, emptied(3));
    expect(gone.look()).toBeUndefined();
    expect([...gone.marks]).toHaveLength(3);
    expect(stage(emptied(0, 1), third, emptied(3)).look({ nowMs: WRITTEN_MS + 50 })).toContain("gone after 50 ms");
    const back = stage(...whole);
    expect(back.look()).toBeUndefined();
    back.holds([emptied(0), second, third, emptied(3)]);
    expect(back.look()).toContain("key b has offset 1 again");
  });

  it("moves no offset, changes no record and leaves none out at the end", () => {
    expect(stage(second, third, tombstone).look()).toContain("has 1 where 0 belongs");
    expect(stage(emptied(0, 1), batchOf({ offset: 2, key: "a", value: "3" }), tombstone).look()).toContain(
      "another record",
    );
    expect(stage(emptied(0, 1), third).look()).toContain("ends at 3, not at 4");
    expect(stage(emptied(0, 1), third, batchOf({ offset: 3, key: "c", value: "3" })).look()).toContain(
      "another record",
    );
  });
});

describe("what leaders wrote", () => {
  it("is not there any more where one wrote again since its disk had no room (seed 721001090)", () => {
    const truth = new RecordTruth({ checksum: host.checksum, codecs: host.codecs });
    for (const record of RECORDS) truth.wrote(batchOf(record), 0, WRITTEN_MS);
    const isCommitted = (): boolean => true;
    const [first] = [...truth.written(0, 0, 1)];
    if (first === undefined) throw new Error("nothing was written");
    expect(truth.isOld(first, isCommitted)).toBe(true);
    truth.wrote(emptied(2), 0, WRITTEN_MS);
    expect([...truth.written(0, 0, 10)].map(({ offset }) => offset)).toEqual([0, 1]);
    expect(truth.isOld(first, isCommitted)).toBe(false);
  });
});
