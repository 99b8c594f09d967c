// the history of leader epochs.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { EpochHistory } from "../../src/replication/epoch-history.ts";
import { epochsOf } from "./harness.ts";

function history(...pairs: readonly (readonly [number, number])[]): EpochHistory {
  const made = new EpochHistory();
  made.reset(epochsOf(...pairs));
  return made;
}
const pairsOf = (made: EpochHistory) =>
  made.entries.map(({ epoch, startOffset }): [number, number] => [epoch, startOffset]);
const open = (made: EpochHistory, epoch: number, start: number) => made.open(epoch as LeaderEpoch, start as Offset);
const endOf = (made: EpochHistory, epoch: number, end: number) => {
  const found = made.endOffsetFor(epoch, end as Offset);
  return found && [found.epoch, found.endOffset];
};

describe("R-11: endOffsetFor", () => {
  const made = history([1, 0], [2, 5], [5, 9]);
  test.each([
    [-1, undefined],
    [0, [0, 0]],
    [1, [1, 5]],
    [2, [2, 9]],
    [3, [2, 9]],
    [4, [2, 9]],
    [5, [5, 12]],
    [6, undefined],
  ])("epoch %i -> %j", (epoch, expected) => expect(endOf(made, epoch, 12)).toEqual(expected));

  test("an empty history knows nothing", () => expect(endOf(history(), 0, 0)).toBeUndefined());
});

describe("R-10: open", () => {
  test("the same epoch again changes nothing, unless it starts lower", () => {
    const made = history([1, 0], [2, 5]);
    open(made, 2, 8);
    expect(pairsOf(made)).toEqual([
      [1, 0],
      [2, 5],
    ]);
    open(made, 2, 3);
    expect(pairsOf(made)).toEqual([
      [1, 0],
      [2, 3],
    ]);
  });
  test("R-9: elections without data stay visible only as the last one", () => {
    const made = history([1, 0]);
    open(made, 2, 4);
    open(made, 3, 4);
    expect(pairsOf(made)).toEqual([
      [1, 0],
      [3, 4],
    ]);
  });
  test("entries of no older epoch go", () => {
    const made = history([1, 0], [4, 4], [6, 8]);
    open(made, 5, 9);
    expect(pairsOf(made)).toEqual([
      [1, 0],
      [4, 4],
      [5, 9],
    ]);
  });
});

test("R-12: a cut at the end drops an epoch without records", () => {
  const made = history([1, 0], [2, 5]);
  made.cut(5 as Offset);
  expect(pairsOf(made)).toEqual([[1, 0]]);
});

test("what is taken back leaves an epoch that was opened there before", () => {
  const made = history([1, 0], [2, 5], [3, 7]);
  made.takeBack(5 as Offset);
  expect(pairsOf(made)).toEqual([
    [1, 0],
    [2, 5],
  ]);
});

test("both columns stay strictly increasing, and endOffsetFor agrees with a naive look at who wrote what", () => {
  const command = fc.oneof(
    fc.record({ kind: fc.constant("append" as const), rise: fc.nat(2), count: fc.integer({ min: 0, max: 3 }) }),
    fc.record({ kind: fc.constant("cut" as const), part: fc.double({ min: 0, max: 1, noNaN: true }) }),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 40 }), (commands) => {
      const made = new EpochHistory();
      let writers: number[] = [];
      let opened: number | undefined;
      let epoch = 0;
      for (const one of commands) {
        if (one.kind === "append") {
          epoch += one.rise;
          open(made, epoch, writers.length);
          opened = epoch;
          for (let count = 0; count < one.count; count++) writers.push(epoch);
        } else {
          const to = Math.floor(one.part * writers.length);
          made.cut(to as Offset);
          writers = writers.slice(0, to);
          opened = undefined;
        }
      }
      const entries = pairsOf(made);
      entries.slice(1).forEach(([at, start], index) => {
        const [before, startBefore] = entries[index] as [number, number];
        expect(at > before && start > startBefore).toBe(true);
      });
      const known = [...new Set([...writers, ...(opened === undefined ? [] : [opened])])].sort((a, b) => a - b);
      const latest = known.at(-1);
      for (const asked of known) {
        const below = known.filter((one) => one <= asked);
        const end = asked === latest ? writers.length : writers.filter((writer) => writer <= asked).length;
        expect(endOf(made, asked, writers.length)).toEqual([below.at(-1), end]);
      }
    }),
    { numRuns: 300 },
  );
});
