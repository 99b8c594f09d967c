// A tally counts what a history shows, and every anomaly that is planted in one.
import { expect, it } from "vitest";
import type { Acks } from "../../src/client/types.ts";
import type { HistoryEvent, ScanEnded, SendEnded, SendInvoked } from "../../src/checkers/history.ts";
import { tally } from "../../src/checkers/tally.ts";

const PLACE = { topic: "t", partition: 0 } as const;

function sent(operation: number, timeMs: number, acks: Acks = "all"): SendInvoked {
  return { type: "send invoked", timeMs, operation, process: "p", ...PLACE, acks, value: `v${operation}`, sum: 0 };
}
function ended(operation: number, timeMs: number, offset: number | undefined): SendEnded {
  return { type: "send ok", timeMs, operation, offset };
}
function scan(timeMs: number, values: readonly number[], startOffset = 0): ScanEnded {
  const records = values.map((value, index) => ({ offset: startOffset + index, value: `v${value}` }));
  return { type: "scan", timeMs, process: "f", ...PLACE, startOffset, endOffset: startOffset + values.length, records };
}

/** Three records at 0, 1 and 2, sent and acknowledged. */
const SOUND: readonly HistoryEvent[] = [0, 1, 2].flatMap((n) => [sent(n, n * 10), ended(n, n * 10 + 5, n)]);

it("finds nothing in a sound history", () => {
  const { total, strangers, examples } = tally([...SOUND, scan(100, [0, 1, 2])]);
  expect(total).toEqual({
    ...{ sent: 3, acknowledged: 3, failed: 0, unknown: 0 },
    ...{ lost: 0, duplicated: 0, outOfOrder: 0, failedButThere: 0, unjudged: 0 },
  });
  expect({ strangers, examples }).toEqual({ strangers: 0, examples: [] });
});

it("counts as lost what one of the final scans lacks, however many others have it", () => {
  const { total, examples } = tally([...SOUND, scan(100, [0, 1, 2]), scan(110, [0, 1]), scan(120, [0, 1, 2])]);
  expect(total.lost).toBe(1);
  expect(examples).toEqual(["t-0: record 2 of p (acks=all), acknowledged at 2, is lost"]);
});

it("counts as lost what stands at another offset than its sender was told", () => {
  expect(tally([...SOUND, scan(100, [0, 2, 1])]).total.lost).toBe(2);
});

it("judges by the scans after the last send alone, or by those from the time that it is told", () => {
  const early = scan(22, [0, 1]);
  const history = [...SOUND.slice(0, 5), early, ...SOUND.slice(5), scan(100, [0, 1, 2])];
  expect(tally(history).total.lost).toBe(0);
  expect(tally(history, { finalFromMs: 20 }).total.lost).toBe(1);
});

it("says that it does not know of partitions that no final scan has read", () => {
  expect(tally(SOUND).total).toMatchObject({ lost: 0, unjudged: 3 });
});

it("neither misses what lies below where the log begins nor takes it for found", () => {
  const { records, ...rest } = scan(100, [0, 1, 2]);
  const cut = { ...rest, startOffset: 1, records: records.slice(1) };
  expect(tally([...SOUND, cut]).total).toMatchObject({ lost: 0, unjudged: 1 });
});

it("counts records of acks=0, which have no offset, as lost when they are nowhere", () => {
  const history = [0, 1].flatMap((n) => [sent(n, n, 0), ended(n, n, undefined)]);
  const { rows } = tally([...history, scan(100, [1])]);
  expect(rows).toMatchObject([{ acks: 0, sent: 2, acknowledged: 2, lost: 1 }]);
});

it("counts duplicates, order, strangers, and records that are there though their send failed", () => {
  const failed: SendEnded = { type: "send failed", timeMs: 35, operation: 3, offset: undefined };
  const open = sent(4, 40);
  const { total, strangers } = tally([...SOUND, sent(3, 30), failed, open, scan(100, [0, 2, 1, 1, 3, 9])]);
  expect(total).toMatchObject({ sent: 5, failed: 1, unknown: 1, duplicated: 1, outOfOrder: 1, failedButThere: 1 });
  expect(strangers).toBe(1);
});

it("does not take a record's second copy for one out of order", () => {
  expect(tally([...SOUND, scan(100, [0, 1, 2, 0])]).total).toMatchObject({ duplicated: 1, outOfOrder: 0 });
});

it("compares the order of sends of one level alone, for between levels none is promised", () => {
  const mixed = [sent(3, 30, 1), ended(3, 31, 2), sent(4, 40), ended(4, 41, 3), sent(5, 50, 1), ended(5, 51, 4)];
  const first = [sent(0, 0), ended(0, 1, 0), sent(1, 2), ended(1, 3, 1)];
  expect(tally([...first, ...mixed, scan(100, [3, 0, 1, 4, 5])]).total.outOfOrder).toBe(0);
  expect(tally([...first, ...mixed, scan(100, [5, 0, 1, 4, 3])]).total.outOfOrder).toBe(1);
});

it("forgets a topic that is deleted", () => {
  const deleted: HistoryEvent = { type: "topic deleting", timeMs: 50, topic: "t" };
  expect(tally([...SOUND, deleted]).total).toMatchObject({ sent: 0, lost: 0, unjudged: 0 });
});

it("gives latency and the longest gap of each window; a send that reaches into the first one counts there", () => {
  const windows = [
    { name: "during", fromMs: 1000, untilMs: 2000 },
    { name: "before", fromMs: 0, untilMs: 1000 },
    { name: "after", fromMs: 2000, untilMs: 3000 },
  ];
  const history = [
    ...[0, 1, 2].flatMap((n) => [sent(n, n * 100), ended(n, n * 100 + n + 1, n)]),
    ...[sent(3, 990), ended(3, 2500, 3)],
    ...[sent(4, 2600), ended(4, 2604, 4)],
  ];
  const { rows, longestGapMs } = tally([...history, scan(9000, [0, 1, 2, 3, 4])], { windows });
  expect(rows[0]?.windows).toMatchObject([
    { name: "during", acknowledged: 1, latencyMs: { p50: 1510 }, longestGapMs: 2297 },
    { name: "before", acknowledged: 3, latencyMs: { p50: 2, p99: 3, max: 3 }, longestGapMs: 2297 },
    { name: "after", acknowledged: 1, latencyMs: { p50: 4 }, longestGapMs: 2297 },
  ]);
  expect(longestGapMs).toBe(2297);
});

it("takes windows of the same name for one", () => {
  const windows = [0, 100].map((fromMs) => ({ name: "during", fromMs, untilMs: fromMs + 20 }));
  const history = [sent(0, 5), ended(0, 10, 0), sent(1, 50), ended(1, 52, 1), sent(2, 90), ended(2, 110, 2)];
  const { rows } = tally([...history, scan(200, [0, 1, 2])], { windows });
  expect(rows[0]?.windows).toEqual([
    {
      ...{ name: "during", acknowledged: 2, latencyMs: { p50: 5, p99: 20, max: 20 } },
      ...{ longestGapMs: 58, longestPartitionGapMs: 58 },
    },
  ]);
});

it("measures the gap of one partition that the others hide, and one that never ends", () => {
  const other = { topic: "t", partition: 1 };
  const history: HistoryEvent[] = [sent(0, 0), ended(0, 1, 0), sent(1, 2)];
  for (let n = 2; n < 12; n++) history.push({ ...sent(n, n * 10), ...other }, ended(n, n * 10 + 1, n - 2));
  history.push({ type: "send unknown", timeMs: 501, operation: 1, offset: undefined });
  expect(tally(history).rows[0]).toMatchObject({ longestPartitionGapMs: 500, longestGapMs: 390 });
});
