// A history survives its files, whatever cuts them, and what is no history is refused.
import { mkdtempSync, rmSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import { historyLine, mergeHistories } from "../../src/checkers/history-file.ts";
import { historyFile, HistoryWriter } from "../../src/chaos/history-io.ts";

function at(timeMs: number, node = "é"): HistoryEvent {
  return { type: "stopped", timeMs, node };
}
function source(name: string, text: string, chunkSize = 7) {
  const chunks: string[] = [];
  for (let from = 0; from < text.length; from += chunkSize) chunks.push(text.slice(from, from + chunkSize));
  return { name, chunks };
}
function textOf(...events: readonly HistoryEvent[]): string {
  return events.map(historyLine).join("");
}

it("merges by time, and of the same time the earlier source first", () => {
  const a = source("a", textOf(at(1, "a"), at(4, "a"), at(5, "a")));
  const b = source("b", textOf(at(2.5, "b"), at(4, "b")), 1);
  expect([...mergeHistories([a, source("none", ""), b])]).toEqual([
    ...[at(1, "a"), at(2.5, "b")],
    ...[at(4, "a"), at(4, "b"), at(5, "a")],
  ]);
});

it("leaves out a last line that was cut, at each place of it", () => {
  const whole = textOf(at(1));
  const last = textOf(at(2));
  for (let size = 0; size < last.length; size++)
    expect([...mergeHistories([source("a", whole + last.slice(0, size))])]).toEqual([at(1)]);
  expect([...mergeHistories([source("a", whole + last)])]).toHaveLength(2);
});

it("refuses a cut line elsewhere, what is no event, and time that goes back", () => {
  const merged = (text: string) => () => [...mergeHistories([source("a", text)])];
  expect(merged(`${textOf(at(1)).slice(0, 9)}\n${textOf(at(2))}`)).toThrow("a:1: no event");
  expect(merged(`${textOf(at(1))}{"type":1,"timeMs":2}\n`)).toThrow("a:2: no event");
  expect(merged(textOf(at(2), at(1)))).toThrow("a:2: time goes back");
});

it("writes and reads files, longer than a piece, with letters of more bytes than one, and more than once", async () => {
  const directory = mkdtempSync(join(tmpdir(), "ottla-history-"));
  try {
    const path = join(directory, "a.jsonl");
    const writer = new HistoryWriter(path);
    const names = Array.from({ length: 300 }, (_, index) => "é".repeat(index * 5));
    const times = names.map((node) => writer.record({ type: "stopped", node }));
    writer.close();
    await appendFile(path, '{"type":"stop');
    const expected = names.map((node, index) => at(times[index] ?? Number.NaN, node));
    expect([...mergeHistories([historyFile(path)])]).toEqual(expected);
    expect([...mergeHistories([historyFile(path)])]).toEqual(expected);
    expect(() => new HistoryWriter(path)).toThrow("EEXIST");
  } finally {
    rmSync(directory, { recursive: true });
  }
});
