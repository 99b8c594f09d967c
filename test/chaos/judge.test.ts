// A history of real processes is judged by the simulator's checkers: what was lost is found, and so is what was not acknowledged while it should be.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import { historyLine } from "../../src/checkers/history-file.ts";
import { judge } from "../../src/chaos/judge.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-judge-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const PLACE = { topic: "t", partition: 0 };
let files = 0;

function fileOf(events: readonly HistoryEvent[]): string {
  const path = join(directory, `${files++}.jsonl`);
  writeFileSync(path, events.map(historyLine).join(""));
  return path;
}

const sent = (operation: number, timeMs: number, acks: 1 | "all" = "all"): readonly HistoryEvent[] => [
  {
    type: "send invoked",
    timeMs,
    operation,
    process: "load-1",
    ...PLACE,
    acks,
    value: `v${operation}`,
    sum: 1,
    isNumbered: acks === "all",
  },
  { type: "send ok", timeMs: timeMs + 5, operation, offset: operation },
];

const scan = (timeMs: number, values: readonly string[]): HistoryEvent => ({
  type: "scan",
  timeMs,
  process: "scanner-1",
  ...PLACE,
  startOffset: 0,
  endOffset: values.length,
  records: values.map((value, offset) => ({ offset, value })),
});

const WINDOWS = [{ name: "0", fromMs: 100, untilMs: 200 }];

describe("judge", () => {
  it("finds nothing wrong where nothing is, and counts what was acknowledged in a fault", async () => {
    const load = fileOf([...sent(0, 10), ...sent(1, 110), ...sent(2, 300)]);
    const found = await judge({
      files: [load, fileOf([scan(400, ["v0", "v1", "v2"])])],
      windows: WINDOWS,
      finalFromMs: 350,
    });
    expect(found.violations).toEqual([]);
    expect(found.tally.total).toMatchObject({ sent: 3, acknowledged: 3, lost: 0, unjudged: 0 });
    expect(found.windows.get("0")?.acknowledged).toBe(1);
    expect(found.acknowledged).toBe(3);
  });

  it("finds a record that is gone, from the files of two processes", async () => {
    const load = fileOf([...sent(0, 10), ...sent(1, 110)]);
    const found = await judge({ files: [load, fileOf([scan(400, ["v0"])])], windows: WINDOWS, finalFromMs: 350 });
    expect(found.violations.map(({ invariant }) => invariant)).toContain(1);
    expect(found.tally.total.lost).toBe(1);
  });

  it("excuses a loss of acks=1 where the leader changed, and only there", async () => {
    const load = fileOf(sent(0, 110, 1));
    const end = fileOf([scan(400, [])]);
    const changed = fileOf([
      { type: "leadership", timeMs: 100, ...PLACE, leaders: 2 },
      { type: "leadership", timeMs: 200, ...PLACE, leaders: 1 },
    ]);
    const excused = await judge({ files: [load, end, changed], windows: WINDOWS, finalFromMs: 350 });
    expect(excused.violations).toEqual([]);
    expect(excused.excused).toBe(1);
    const strict = await judge({ files: [load, end], windows: WINDOWS, finalFromMs: 350 });
    expect(strict.violations).toHaveLength(1);
  });

  it("does not count what nobody answered: acks=0", async () => {
    const events: readonly HistoryEvent[] = [
      { type: "send invoked", timeMs: 110, operation: 0, process: "load-1", ...PLACE, acks: 0, value: "v0", sum: 1 },
      { type: "send ok", timeMs: 111, operation: 0, offset: undefined },
    ];
    const found = await judge({ files: [fileOf(events)], windows: WINDOWS, finalFromMs: undefined });
    expect(found.windows.get("0")?.acknowledged).toBe(0);
  });
});
