// Each checker is silent on a sound history and speaks on one with its anomaly planted.
import { describe, expect, it } from "vitest";
import type { Acks } from "../../src/client/types.ts";
import { CheckerSet } from "../../src/checkers/checker-set.ts";
import type { FaultHappened, HistoryEvent, RecordRead, SendEnded, SendInvoked } from "../../src/checkers/history.ts";

const PLACE = { topic: "t", partition: 0 } as const;

function sent(operation: number, timeMs: number, acks: Acks = "all"): SendInvoked {
  return {
    type: "send invoked",
    timeMs,
    operation,
    process: "p",
    ...PLACE,
    acks,
    value: `v${operation}`,
    sum: operation,
  };
}
function ok(operation: number, timeMs: number, offset: number | undefined): SendEnded {
  return { type: "send ok", timeMs, operation, offset };
}
function failed(operation: number, timeMs: number): SendEnded {
  return { type: "send failed", timeMs, operation, offset: undefined };
}
function read(offset: number, timeMs: number, other: Partial<RecordRead> = {}): RecordRead {
  return {
    type: "read",
    timeMs,
    process: `c-${timeMs}`,
    ...PLACE,
    offset,
    value: `v${offset}`,
    sum: offset,
    highWatermark: offset + 1,
    fromOffset: 0,
    ...other,
  };
}
function scan(timeMs: number, offsets: readonly number[], endOffset: number): HistoryEvent {
  return {
    type: "scan",
    timeMs,
    process: "f",
    ...PLACE,
    startOffset: 0,
    endOffset,
    records: offsets.map((offset) => ({ offset, value: `v${offset}` })),
  };
}
function fault(kind: FaultHappened["fault"], timeMs: number): FaultHappened {
  return { type: "fault", timeMs, node: "n", fault: kind };
}
function end(source: "told" | "platter", timeMs: number, endOffset: number): HistoryEvent {
  return { type: "end", timeMs, source, ...PLACE, endOffset };
}

function found(...history: readonly HistoryEvent[]): number[] {
  const checkers = new CheckerSet();
  for (const event of history) checkers.observe(event);
  return [...new Set(checkers.violations.map((violation) => violation.invariant))].sort((left, right) => left - right);
}

/** Three records acknowledged at 0 to 2. */
const SOUND: readonly HistoryEvent[] = [sent(0, 1), ok(0, 2, 0), sent(1, 3, 1), ok(1, 4, 1), sent(2, 5), ok(2, 6, 2)];

describe("a sound history", () => {
  it("breaks nothing", () => {
    expect(
      found(
        ...SOUND,
        read(0, 7),
        read(1, 8),
        read(0, 9),
        end("platter", 9, 3),
        scan(10, [0, 1, 2], 3),
        end("told", 11, 3),
      ),
    ).toEqual([]);
  });

  it("a send whose outcome is unknown may be there or not", () => {
    const unknown: SendEnded = { type: "send unknown", timeMs: 8, operation: 3, offset: undefined };
    expect(found(...SOUND, sent(3, 7), unknown, scan(9, [0, 1, 2], 3))).toEqual([]);
    expect(found(...SOUND, sent(3, 7), unknown, read(3, 9), scan(9, [0, 1, 2, 3], 4))).toEqual([]);
  });
});

describe("invariant 1", () => {
  it("finds a lost record, and another one in its place", () => {
    expect(found(...SOUND, scan(7, [0, 1], 2))).toEqual([1]);
    expect(found(...SOUND, sent(9, 7), read(2, 8, { value: "v9", sum: 9 }))).toEqual([1]);
    expect(found(...SOUND, sent(3, 7), ok(3, 8, 2))).toEqual([1]);
  });

  it("acks=1 may be lost to a power loss or a failed sync after it was sent, not to a kill nor to an earlier one", () => {
    const history = [sent(0, 2, 1), ok(0, 3, 0)];
    expect(found(...history, fault("process death", 4), scan(5, [], 0))).toEqual([1]);
    expect(found(fault("power loss", 1), ...history, scan(5, [], 0))).toEqual([1]);
    expect(found(...history, fault("power loss", 4), scan(5, [], 0))).toEqual([]);
    expect(found(...history, fault("failed sync", 4), scan(5, [], 0))).toEqual([]);
    expect(found(sent(0, 2, "all"), ok(0, 3, 0), fault("power loss", 4), scan(5, [], 0))).toEqual([1]);
  });

  it("forgets a topic that is being deleted", () => {
    expect(found(...SOUND, { type: "topic deleting", timeMs: 7, topic: "t" }, scan(8, [], 0))).toEqual([]);
  });
});

it("invariant 2 finds an offset that was read with two values", () => {
  expect(found(sent(0, 1), sent(1, 1), read(0, 2), read(0, 3, { value: "v1", sum: 1 }))).toEqual([2]);
});

it("invariant 4 finds a gap, a repetition and a missing end", () => {
  expect(found(scan(1, [0, 2], 3))).toEqual([4]);
  expect(found(scan(1, [0, 0, 1], 2))).toEqual([4]);
  expect(found(scan(1, [0, 1], 3))).toEqual([4]);
  expect(found(sent(0, 1), sent(2, 1), read(0, 2), read(2, 3, { afterOffset: 0 }))).toEqual([4]);
  expect(found(sent(0, 1), sent(1, 1), read(0, 2), read(1, 3, { afterOffset: 0 }))).toEqual([]);
});

it("invariant 11 finds a read at the high watermark, and one below what was asked for", () => {
  expect(found(sent(0, 1), read(0, 2, { highWatermark: 0 }))).toEqual([11]);
  expect(found(sent(0, 1), read(0, 2, { fromOffset: 1 }))).toEqual([11]);
});

it("invariant 16 finds an end below what was told to be durable", () => {
  expect(found(...SOUND, end("platter", 7, 2))).toEqual([16]);
  expect(found(...SOUND, read(0, 7, { highWatermark: 9 }), end("told", 8, 8))).toEqual([16]);
  expect(found(end("told", 7, 5), end("platter", 8, 4))).toEqual([16]);
});

it("invariant 16 finds a data directory that is refused as damaged", () => {
  const refused = (code: string): HistoryEvent => ({ type: "start refused", timeMs: 1, node: "n", code, reason: "" });
  expect(found(refused("DATA_DAMAGED"))).toEqual([16]);
  expect(found(refused("DISK_FAILED"))).toEqual([]);
});

it("invariant 17 finds one record at two offsets", () => {
  expect(found(sent(0, 1), read(0, 2), read(1, 3, { value: "v0", sum: 0 }))).toEqual([17]);
});

it("invariant 18 finds what nobody sent, and what certainly was not appended, whichever comes first", () => {
  expect(found(read(0, 1))).toEqual([18]);
  expect(found(sent(0, 1), failed(0, 2), read(0, 3))).toEqual([18]);
  expect(found(sent(0, 1), read(0, 2), failed(0, 3))).toEqual([18]);
});

it("invariant 19 finds changed bytes, and a record in a foreign partition", () => {
  expect(found(sent(0, 1), read(0, 2, { sum: 77 }))).toEqual([19]);
  expect(found(sent(0, 1), read(0, 2, { partition: 1 }))).toEqual([19]);
});

it("invariant 42 finds an answer after a failed sync, and a process that goes on", () => {
  const acknowledged = (timeMs: number): HistoryEvent => ({ type: "acknowledged", timeMs, node: "n" });
  const stopped: HistoryEvent = { type: "stopped", timeMs: 60, node: "n" };
  expect(found({ ...fault("failed sync", 50), holdsPromises: true }, acknowledged(55))).toEqual([42]);
  expect(found(fault("failed sync", 50), acknowledged(55), stopped)).toEqual([]);
  expect(found(fault("failed sync", 50), read(0, 200), sent(0, 1))).toContain(42);
  const paused: HistoryEvent = { type: "paused", timeMs: 51, node: "n", untilMs: 1000 };
  expect(found(fault("failed sync", 50), paused, end("told", 1099, 0))).toEqual([]);
  expect(found(fault("failed sync", 50), paused, end("told", 1101, 0))).toEqual([42]);
  const starting = { ...fault("failed sync", 50), isServing: false };
  expect(found(starting, end("told", 5000, 0))).toEqual([]);
  expect(found(starting, end("told", 5200, 0))).toEqual([42]);
  expect(found(acknowledged(40), fault("failed sync", 50), stopped, acknowledged(300), sent(0, 400))).toEqual([]);
});

it("invariant 43 finds a budget above its bound", () => {
  const budget = (value: number): HistoryEvent => ({
    type: "budget",
    timeMs: 1,
    node: "n",
    budget: "pinned",
    value,
    bound: 10,
  });
  expect(found(budget(10))).toEqual([]);
  expect(found(budget(11))).toEqual([43]);
});

describe("a lost disk (D11)", () => {
  const lost = { type: "partition lost", timeMs: 7, ...PLACE } as const;

  it("excuses everything of the partitions that only it had, and nothing of others", () => {
    expect(found(...SOUND, lost, scan(10, [], 0), end("told", 11, 0), read(0, 12, { value: "other" }))).toEqual([]);
    expect(found(...SOUND, sent(3, 6), lost, ok(3, 8, 0))).toEqual([]);
    expect(found(...SOUND, { ...lost, partition: 1 }, scan(10, [], 0), end("told", 11, 0))).toEqual([1, 16]);
  });
});

describe("acks=1 of a partition with several replicas", () => {
  const several = (...history: readonly HistoryEvent[]): number[] => {
    const checkers = new CheckerSet(() => "several");
    for (const event of history) checkers.observe(event);
    return checkers.violations.map(({ invariant }) => invariant);
  };
  const leadership = (timeMs: number, leaders = 1): HistoryEvent => ({ type: "leadership", timeMs, ...PLACE, leaders });
  const history = [sent(1, 5, 1), ok(1, 6, 0)];

  it("is lost only when somebody began or ceased to lead after it was sent", () => {
    expect(several(...history, scan(10, [], 0))).toEqual([1]);
    expect(several(leadership(4), ...history, fault("power loss", 7), scan(10, [], 0))).toEqual([1]);
    expect(several(...history, leadership(7), scan(10, [], 0))).toEqual([]);
    expect(several(leadership(4, 2), ...history, scan(10, [], 0))).toEqual([]);
  });

  it("a leader of before may take one beside its successor, at an offset that was acknowledged with acks=all", () => {
    const both = [sent(1, 5), ok(1, 6, 0), sent(2, 7, 1), ok(2, 8, 0)];
    expect(several(leadership(4, 2), ...both)).toEqual([]);
    expect(several(leadership(4), ...both)).toContain(1);
    expect(several(leadership(4, 2), ...both, scan(10, [], 0))).toContain(1);
  });

  it("acks=all is not excused by that", () => {
    expect(several(sent(1, 5), ok(1, 6, 0), leadership(7), scan(10, [], 0))).toEqual([1]);
  });
});

describe("invariant 10: the end that one client is told", () => {
  const latest = (timeMs: number, invokedMs: number, endOffset: number, process = "c"): HistoryEvent => ({
    type: "latest",
    timeMs,
    invokedMs,
    process,
    ...PLACE,
    endOffset,
  });

  it("never goes back, by records or by asking", () => {
    expect(found(latest(2, 1, 5), latest(4, 3, 5))).toEqual([]);
    expect(found(latest(2, 1, 5), latest(4, 3, 4))).toEqual([10]);
    expect(found(sent(0, 0), read(0, 1, { process: "c", highWatermark: 9 }), latest(4, 3, 8))).toEqual([10]);
    expect(
      found(sent(0, 0), read(0, 1, { process: "c", highWatermark: 9 }), read(0, 2, { process: "c", highWatermark: 8 })),
    ).toEqual([10]);
  });

  it("is no promise to others, nor to a question that was asked before", () => {
    expect(found(latest(2, 1, 5), latest(4, 3, 4, "d"))).toEqual([]);
    expect(found(latest(4, 3, 5), latest(5, 2, 4))).toEqual([]);
  });
});

describe("a fault of another node", () => {
  it("excuses no loss of a partition whose home is known", () => {
    const homed = (home: string | undefined): number[] => {
      const checkers = new CheckerSet(() => home);
      for (const event of [...SOUND, fault("power loss", 7), scan(10, [0, 2], 3)]) checkers.observe(event);
      return checkers.violations.map(({ invariant }) => invariant);
    };
    expect(homed("n")).toEqual([4]);
    expect(homed("another")).toEqual([1, 4]);
    expect(homed(undefined)).toEqual([4]);
  });
});
