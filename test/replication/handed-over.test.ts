// Leadership that goes from one member of the ISR to another one in order: producers that wait are told what becomes of their batches there.
import { describe, expect, test } from "vitest";
import type { Offset } from "../../src/model/ids.ts";
import { type Bench, endsAt, epochsOf, leader, producersAt, type RecordOptions, UNCOUNTED } from "./harness.ts";

const PAIR = { isr: [1, 2], minIsr: 2 };
const UNKNOWN = "NOT_LEADER_OR_FOLLOWER unknown -";

/** Led [0, 10) in epoch 3; one batch with acks all [10, 11), one with acks 1 [11, 13), durable here, fetched by nobody as far as is known. */
function moved(record: RecordOptions = {}): {
  bench: Bench;
  told: string[];
} {
  const bench = leader({ ...PAIR, epoch: 3, end: 10 });
  bench.holds(2, 10);
  bench.produce("all", -1, 1);
  bench.produce("one", 1, 2);
  const told = bench.follow({ ...PAIR, epoch: 4, ...record });
  return { bench, told };
}

const answersIn = (lines: readonly string[]) => lines.filter((line) => line.startsWith("answer"));

describe("a leader that hands over", () => {
  test("answers by the high watermark of the next leader, which has what was appended here", () => {
    const { bench, told } = moved();
    expect(told).toEqual(["fetch 13 last 3 of node 2 epoch 4 first"]);
    // Its own sync proves nothing any more.
    expect(answersIn([...bench.written(13), ...bench.durable(13)])).toEqual([]);
    expect(answersIn(bench.fetched({ epoch: 4, hw: 11 }))).toEqual(["answer all NONE appended 10"]);
    expect(answersIn(bench.fetched({ epoch: 4, hw: 13 }))).toEqual(["answer one NONE appended 11"]);
    expect(bench.core.waitingCount).toBe(0);
  });

  test("says that nobody knows of what is cut, and only of that", () => {
    const { bench } = moved();
    bench.durable(13);
    expect(bench.fetched({ epoch: 4, diverging: [3, 11] })).toEqual(["truncate 11", `answer one ${UNKNOWN}`]);
    bench.truncated(11, 1, epochsOf([3, 0]));
    expect(answersIn(bench.fetched({ epoch: 4, hw: 11 }))).toEqual(["answer all NONE appended 10"]);
  });

  test("and of all when its log begins anew: a later high watermark speaks of other records", () => {
    const { bench } = moved(UNCOUNTED);
    bench.durable(13);
    bench.fetched({ epoch: 4, error: "OFFSET_OUT_OF_RANGE", logStart: 100 });
    const told = answersIn(
      bench.step({ kind: "restarted", ends: endsAt(100, 1), startOffset: 100 as Offset, producers: producersAt(100) }),
    );
    expect(new Set(told)).toEqual(new Set([`answer all ${UNKNOWN}`, `answer one ${UNKNOWN}`]));
  });

  test.each([
    ["another leader follows", (bench: Bench) => bench.follow({ ...PAIR, epoch: 5 })],
    ["it leads again", (bench: Bench) => bench.lead({ ...PAIR, epoch: 5 })],
    ["nobody leads", (bench: Bench) => bench.step({ kind: "stand-by", error: "NOT_LEADER_OR_FOLLOWER" })],
  ])("and of all when %s", (_, change) => {
    const { bench } = moved();
    bench.durable(13);
    const told: string[] = [];
    const { step } = bench;
    bench.step = (event) => {
      const lines = step.call(bench, event);
      told.push(...answersIn(lines));
      return lines;
    };
    change(bench);
    expect(new Set(told)).toEqual(new Set([`answer all ${UNKNOWN}`, `answer one ${UNKNOWN}`]));
    expect(bench.core.waitingCount).toBe(0);
  });

  test("waits no longer than the request", () => {
    const { bench } = moved();
    expect(bench.deadline("all")).toEqual(["answer all REQUEST_TIMED_OUT unknown -"]);
    expect(answersIn(bench.fetched({ epoch: 4, hw: 10 }))).toEqual([]);
  });

  test("a full disk takes back what was not written: it is nowhere", () => {
    const { bench } = moved();
    expect(answersIn(bench.refused(10))).toEqual([
      "answer one STORAGE_FULL not appended -",
      "answer all STORAGE_FULL not appended -",
    ]);
  });

  test.each([
    ["an epoch was left out", { epoch: 5 }],
    ["it is no replica any more", { isr: [2] }],
  ])("R-42: nobody knows at once where %s", (_, record) => {
    expect(new Set(answersIn(moved(record).told))).toEqual(new Set([`answer all ${UNKNOWN}`, `answer one ${UNKNOWN}`]));
  });
});
