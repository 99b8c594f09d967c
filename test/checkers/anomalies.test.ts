// Every anomaly by which histories of a log are judged, each planted in a history that is sound without it.
import { describe, expect, it } from "vitest";
import type { Acks } from "../../src/client/types.ts";
import { CheckerSet } from "../../src/checkers/checker-set.ts";
import type { HistoryEvent, RecordRead, SendInvoked } from "../../src/checkers/history.ts";

const PLACE = { topic: "t", partition: 0 } as const;

class History {
  readonly events: HistoryEvent[] = [];

  get #timeMs(): number {
    return this.events.length + 1;
  }

  sent(operation: number, other: Partial<SendInvoked> = {}): this {
    const value = `v${operation}`;
    this.events.push({
      type: "send invoked",
      timeMs: this.#timeMs,
      operation,
      process: "p",
      ...PLACE,
      acks: "all" satisfies Acks,
      value,
      sum: operation,
      isNumbered: true,
      ...other,
    });
    return this;
  }

  ok(operation: number, offset: number): this {
    this.events.push({ type: "send ok", timeMs: this.#timeMs, operation, offset });
    return this;
  }

  again(operation: number, offset: number): this {
    this.events.push({ type: "send repeated", timeMs: this.#timeMs, operation, offset });
    return this;
  }

  ended(type: "send failed" | "send unknown", operation: number): this {
    this.events.push({ type, timeMs: this.#timeMs, operation, offset: undefined });
    return this;
  }

  /** One consumer reads these records, offset by offset unless told otherwise; `polls` are its record numbers. */
  polled(process: string, polls: readonly (readonly [offset: number, record: number])[]): this {
    let after: number | undefined;
    for (const [offset, record] of polls) {
      const read: RecordRead = {
        type: "read",
        timeMs: this.#timeMs,
        process,
        ...PLACE,
        offset,
        value: `v${record}`,
        sum: record,
        highWatermark: 100,
        fromOffset: 0,
        ...(after === undefined ? {} : { afterOffset: after }),
      };
      this.events.push(read);
      after = offset;
    }
    return this;
  }

  /** The last reading of all: record numbers by offset, from 0 on. */
  scanned(records: readonly number[], endOffset = records.length): this {
    this.events.push({
      type: "scan",
      timeMs: this.#timeMs,
      process: "scanner",
      ...PLACE,
      startOffset: 0,
      endOffset,
      records: records.map((record, offset) => ({ offset, value: `v${record}` })),
    });
    return this;
  }

  get found(): number[] {
    const checkers = new CheckerSet();
    for (const event of this.events) checkers.observe(event);
    checkers.conclude();
    return [...new Set(checkers.violations.map(({ invariant }) => invariant))].sort((left, right) => left - right);
  }
}

/** Three numbered records of one process, acknowledged at 0 to 2. */
function three(): History {
  return new History().sent(0).sent(1).sent(2).ok(0, 0).ok(1, 1).ok(2, 2);
}

const ALL = [
  [0, 0],
  [1, 1],
  [2, 2],
] as const;

it("a sound history has none", () => {
  expect(three().polled("c", ALL).scanned([0, 1, 2]).found).toEqual([]);
  expect(three().again(1, 1).polled("c", ALL).scanned([0, 1, 2]).found).toEqual([]);
});

describe("anomalies", () => {
  it("inconsistent offsets: two values at one offset", () => {
    expect(
      new History()
        .sent(0)
        .sent(1)
        .polled("c", [[0, 0]])
        .polled("d", [[0, 1]]).found,
    ).toEqual([2]);
    expect(new History().sent(0).sent(1).ok(0, 0).ok(1, 0).found).toEqual([1]);
  });

  it("duplicate: one value at two offsets; of a batch without numbers by another name", () => {
    expect(three().polled("c", [...ALL, [3, 1]]).found).toEqual([21, 22]);
    const unknown = new History().sent(0).ended("send unknown", 0);
    expect(
      unknown.polled("c", [
        [0, 0],
        [1, 0],
      ]).found,
    ).toEqual([21]);
    const plain = new History().sent(0, { isNumbered: false, acks: 1 });
    expect(
      plain.polled("c", [
        [0, 0],
        [1, 0],
      ]).found,
    ).toEqual([17]);
  });

  it("an answer to a batch that was sent again names another offset, or one where it is not", () => {
    expect(three().again(1, 3).found).toEqual([23]);
    expect(
      new History()
        .sent(0)
        .ended("send unknown", 0)
        .polled("c", [[4, 0]])
        .again(0, 5).found,
    ).toEqual([23]);
    expect(
      new History()
        .sent(0)
        .polled("c", [[4, 0]])
        .ok(0, 5).found,
    ).toEqual([23]);
  });

  it("lost write: acknowledged, and polled by nobody though later ones were", () => {
    expect(three().scanned([0, 2], 2).found).toEqual([1]);
    expect(
      new History()
        .sent(0)
        .sent(1)
        .sent(2)
        .ok(1, 1)
        .polled("c", [
          [0, 0],
          [1, 2],
        ]).found,
    ).toEqual([1]);
  });

  it("unseen: acknowledged, and not there when all was read at the end", () => {
    expect(three().polled("c", ALL.slice(0, 2)).scanned([0, 1]).found).toEqual([1]);
  });

  it("G1a, aborted read: what certainly was not appended is read", () => {
    expect(
      new History()
        .sent(0)
        .ended("send failed", 0)
        .polled("c", [[0, 0]]).found,
    ).toEqual([18]);
    expect(
      new History()
        .sent(0)
        .polled("c", [[0, 0]])
        .ended("send failed", 0).found,
    ).toEqual([18]);
  });

  it("an unknown outcome is neither a loss nor a phantom", () => {
    const unknown = (): History => new History().sent(0).sent(1).ended("send unknown", 0).ok(1, 0);
    expect(unknown().scanned([1]).found).toEqual([]);
    expect(
      new History()
        .sent(0)
        .ended("send unknown", 0)
        .polled("c", [[0, 0]])
        .scanned([0]).found,
    ).toEqual([]);
  });

  it("poll skip: a consumer passes a record over", () => {
    expect(three().polled("c", [ALL[0], ALL[2]]).found).toEqual([4]);
  });

  it("nonmonotonic poll: a consumer goes back", () => {
    expect(three().polled("c", [ALL[0], ALL[1], ALL[0]]).found).toEqual([4, 22]);
  });

  it("nonmonotonic send: later sends of a process stand below earlier ones, in a poll or at the end", () => {
    const swapped = (): History => new History().sent(0).sent(1);
    expect(
      swapped().polled("c", [
        [0, 1],
        [1, 0],
      ]).found,
    ).toEqual([22]);
    expect(swapped().scanned([1, 0]).found).toEqual([22]);
  });

  it("order is promised to one process and partition, and for numbered batches", () => {
    const two = (other: Partial<SendInvoked>): History => new History().sent(0).sent(1, other);
    expect(two({ process: "q" }).scanned([1, 0]).found).toEqual([]);
    expect(two({ isNumbered: false, acks: 1 }).scanned([1, 0]).found).toEqual([]);
    const gap = new History().sent(0).sent(1).sent(2).ended("send unknown", 1);
    expect(gap.scanned([0, 2]).found).toEqual([]);
  });
});

describe("a name and its lives", () => {
  const life = (number: number): Partial<SendInvoked> => ({
    process: `p/${number}`,
    named: { name: "n", life: number },
  });

  it("what an earlier life sends after a later one was acknowledged is not acknowledged", () => {
    const taken = (): History => new History().sent(0, life(0)).ok(0, 0).sent(1, life(1)).ok(1, 1);
    expect(taken().sent(2, life(0)).ok(2, 2).found).toEqual([24]);
    expect(taken().sent(2, life(0)).ended("send failed", 2).scanned([0, 1]).found).toEqual([]);
  });

  it("what was under way then may be", () => {
    const history = new History().sent(0, life(0)).sent(1, life(1)).ok(1, 1).ok(0, 0);
    expect(history.scanned([0, 1]).found).toEqual([]);
  });

  it("no record of an earlier life stands above one of a later life", () => {
    const history = new History().sent(0, life(0)).sent(1, life(1)).sent(2, life(0));
    expect(history.scanned([0, 2, 1]).found).toEqual([]);
    expect(history.scanned([0, 1, 2]).found).toEqual([24]);
  });
});

it("what is said of a lost partition is no anomaly", () => {
  const lost: HistoryEvent = { type: "partition lost", timeMs: 9, ...PLACE };
  const history = new History().sent(0).polled("c", [[4, 0]]);
  history.events.push(lost);
  expect(history.ok(0, 1).found).toEqual([]);
});
