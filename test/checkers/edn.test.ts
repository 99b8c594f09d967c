// An exported history obeys Jepsen's rules of histories, and shows each anomaly that is planted in it.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Acks } from "../../src/client/types.ts";
import { ednLines } from "../../src/checkers/edn.ts";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import { type Anomaly, anomaliesOf } from "./edn-anomalies.ts";
import { type EdnOp, readOp } from "./edn-reader.ts";

const PLACE = { topic: "t", partition: 0 } as const;

function sent(operation: number, acks: Acks = "all"): HistoryEvent {
  const value = `v"${operation}\\`;
  return { type: "send invoked", timeMs: 0, operation, process: "p", ...PLACE, acks, value, sum: 0 };
}
function ended(type: "ok" | "failed" | "unknown", operation: number, offset?: number): HistoryEvent {
  return { type: `send ${type}`, timeMs: 0, operation, offset };
}
function polled(process: string, records: readonly (readonly [offset: number, number: number])[]): HistoryEvent[] {
  return records.map(([offset, number], index): HistoryEvent => {
    const after = index === 0 ? {} : { afterOffset: records[index - 1]?.[0] ?? 0 };
    const seen = { value: `v"${number}\\`, sum: 0, highWatermark: 99, fromOffset: 0, ...after };
    return { type: "read", timeMs: 0, process, ...PLACE, offset, ...seen };
  });
}
function scan(numbers: readonly number[]): HistoryEvent {
  const records = numbers.map((number, offset) => ({ offset, value: `v"${number}\\` }));
  return { type: "scan", timeMs: 0, process: "f", ...PLACE, startOffset: 0, endOffset: numbers.length, records };
}
function linesOf(events: readonly HistoryEvent[]): string[] {
  return [...ednLines(events.map((event, timeMs) => ({ ...event, timeMs })))];
}
function exported(events: readonly HistoryEvent[]): EdnOp[] {
  return linesOf(events).map(readOp);
}
function one(operation: number, offset: number): HistoryEvent[] {
  return [sent(operation), ended("ok", operation, offset)];
}
const THREE = [...one(0, 0), ...one(1, 1), ...one(2, 2)];

/** Each by the name under which Jepsen would report it. */
const PLANTED: readonly (readonly [Anomaly[], readonly HistoryEvent[]])[] = [
  [
    [],
    [
      ...THREE,
      ...polled("c", [
        [0, 0],
        [1, 1],
        [2, 2],
      ]),
      scan([0, 1, 2]),
    ],
  ],
  [["inconsistent-offsets"], [...one(0, 0), sent(1), ...polled("c", [[0, 0]]), ...polled("d", [[0, 1]])]],
  [["duplicate"], [...one(0, 0), scan([0, 0])]],
  [
    ["inconsistent-offsets", "lost-write"],
    [...THREE, sent(3), scan([0, 3, 2])],
  ],
  [["unseen"], [...THREE, scan([0, 1])]],
  [["G1a"], [...one(0, 0), sent(1), ended("failed", 1), scan([0, 1])]],
  [
    ["poll-skip"],
    [
      ...THREE,
      ...polled("c", [
        [0, 0],
        [2, 2],
      ]),
      scan([0, 1, 2]),
    ],
  ],
  [
    ["nonmonotonic-poll"],
    [
      ...THREE,
      ...polled("c", [
        [0, 0],
        [1, 1],
        [0, 0],
      ]),
      scan([0, 1, 2]),
    ],
  ],
  [["nonmonotonic-send"], [...one(0, 1), ...one(1, 0), scan([1, 0])]],
  [[], [sent(0), ended("unknown", 0), ...one(1, 0), scan([1])]],
  [[], [sent(0, 1), ended("ok", 0, 0), ...one(1, 0), scan([1])]],
  [[], [sent(0, 0), ended("ok", 0), scan([])]],
];

describe("an exported history", () => {
  it.each(PLANTED)("shows %j", (anomalies, events) => {
    expect(anomaliesOf(exported(events))).toEqual(anomalies);
  });

  it("numbers its operations without a hole, and time does not go back", () => {
    for (const [, events] of PLANTED) {
      const ops = exported(events);
      expect(ops.map(({ index }) => index)).toEqual(ops.map((_, index) => index));
      expect(ops.map(({ time }) => time)).toEqual(ops.map(({ time }) => time).toSorted((a, b) => a - b));
    }
  });

  it("has one operation of a process open at a time, and none after one of unknown outcome", () => {
    const many = Array.from({ length: 30 }, (_, n) => n);
    const open = many.map((n) => sent(n));
    const ends = many.map((n) => ended(n % 3 === 0 ? "unknown" : "ok", n, n % 3 === 0 ? undefined : n));
    const more = many.flatMap((n) => one(n + 30, n + 30));
    expect(processesBroken(exported([...open, ...ends, ...more, scan(many)]))).toEqual([]);
    const [first, ...rest] = exported(THREE);
    if (first === undefined) throw new Error("no operation");
    expect(processesBroken([first, first, ...rest])).toEqual([0]);
  });

  it("gives each seek a process of its own, for a reader may go back by it", () => {
    const ops = exported([
      ...THREE,
      ...polled("c", [
        [1, 1],
        [2, 2],
      ]),
      ...polled("c", [
        [0, 0],
        [1, 1],
      ]),
      scan([0, 1, 2]),
    ]);
    expect(anomaliesOf(ops)).toEqual([]);
    expect(new Set(ops.filter(({ f }) => f === "assign").map(({ process }) => process)).size).toBe(3);
  });

  it("cuts long readings into polls and loses none of their records", () => {
    const many = Array.from({ length: 250 }, (_, n) => n);
    const ops = exported([
      ...many.flatMap((n) => one(n, n)),
      ...polled(
        "c",
        many.map((n) => [n, n]),
      ),
      scan(many),
    ]);
    expect(anomaliesOf(ops)).toEqual([]);
    expect(ops.filter(({ type, f }) => type === "ok" && f === "poll")).toHaveLength(6);
  });

  it("takes a topic that was deleted and made again for another one", () => {
    const deleted: HistoryEvent = { type: "topic deleting", timeMs: 0, topic: "t" };
    const again: HistoryEvent[] = [scan([7])];
    const lines = linesOf([...THREE, scan([0, 1, 2]), deleted, ...again]);
    expect(lines.at(-1)).toContain('{"t#2-0" [[0 ');
    expect(anomaliesOf(lines.map(readOp))).toEqual([]);
  });
});

const CLOJURE = ["clojure/1.12.0/clojure-1.12.0.jar", "spec.alpha/0.5.238/spec.alpha-0.5.238.jar"].map((path) =>
  join(homedir(), ".m2/repository/org/clojure", path),
);
const hasClojure = CLOJURE.every((path) => existsSync(path)) && spawnSync("java", ["-version"]).status === 0;
/** Jepsen is not on Maven Central: its jars, and those that it needs, joined by ":". */
const jepsen = process.env["OTTLA_JEPSEN_CLASSPATH"];

function clojure(script: string, events: readonly HistoryEvent[], classpath: readonly string[]): string {
  const directory = mkdtempSync(join(tmpdir(), "ottla-edn-"));
  try {
    const file = join(directory, "history.edn");
    writeFileSync(file, `${linesOf(events).join("\n")}\n`);
    const run = spawnSync("java", ["-cp", classpath.join(":"), `-Dhistory=${file}`, "clojure.main", "-e", script], {
      encoding: "utf8",
    });
    if (run.status !== 0) throw new Error(run.stderr);
    return run.stdout.trim();
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const READ = `(require '[clojure.edn :as edn] '[clojure.string :as s])
(def ops (mapv edn/read-string (s/split-lines (slurp (System/getProperty "history")))))`;

describe("read by others", () => {
  if (!hasClojure)
    console.error(
      "NOT RUN: no Clojure in ~/.m2 (mvn dependency:get -Dartifact=org.clojure:clojure:1.12.0), or no java",
    );
  it.runIf(hasClojure)("is EDN for Clojure: every operation as it was written", () => {
    const events = PLANTED.flatMap(([, some]) => some);
    const script = `${READ} (print (count ops) (reduce + (map :index ops)) (get-in (last ops) [:value 0 1 "t-0" 0 1]) (frequencies (map :type ops)))`;
    const ops = exported(events);
    const sum = (ops.length * (ops.length - 1)) / 2;
    const types = ops.map(({ type }) => type);
    const said = clojure(script, events, CLOJURE);
    expect(said).toContain(`${ops.length} ${sum} v"1\\ `);
    expect(said).toContain(`:invoke ${types.filter((type) => type === "invoke").length}`);
  });

  if (jepsen === undefined)
    console.error("NOT RUN: OTTLA_JEPSEN_CLASSPATH is not set: Jepsen's own checker has not seen these histories");
  it.runIf(jepsen !== undefined).each(PLANTED)("Jepsen's checker says %j", (anomalies, events) => {
    const script = `${READ} (require '[jepsen.tests.kafka :as k] '[jepsen.history :as h])
      (print (sort (map name (keys (:errors (k/analysis (h/history ops)))))))`;
    const said = clojure(script, events, (jepsen ?? "").split(":"));
    for (const anomaly of anomalies) expect(said).toContain(anomaly);
    if (anomalies.length === 0) expect(said).toBe("()");
  });
});

/** Processes that begin something while they do something, or after something of unknown outcome. */
function processesBroken(ops: readonly EdnOp[]): number[] {
  const busy = new Set<number>();
  return ops.flatMap(({ process, type }) => {
    if (type !== "invoke") {
      const wasBusy = type === "info" ? busy.has(process) : busy.delete(process);
      return wasBusy ? [] : [process];
    }
    if (busy.has(process)) return [process];
    busy.add(process);
    return [];
  });
}
