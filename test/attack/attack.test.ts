// Bounded under attack: a real node, damaged requests of every api and version, sequences of requests that make no sense, and a client beside them
// that must not notice. That each alarm of this goes off is in alarms.test.ts.
import { expect, it } from "vitest";
import { attack } from "../../scripts/attack/attack.ts";
import { ensureBuilt } from "../cli/support.ts";

const SEED = 20_261_130;

const sumOf = (counts: Readonly<Record<string, number>>, prefix: string): number =>
  Object.entries(counts).reduce((sum, [name, count]) => sum + (name.startsWith(prefix) ? count : 0), 0);

it("50,000 damaged requests and 500 sequences: no crash, no hang, no growth, nobody else notices", {
  timeout: 400_000,
}, async () => {
  ensureBuilt();
  const { faults, counts, frames, sequences, ...report } = await attack({ seed: SEED, frames: 50_000, sequences: 500 });
  console.log(JSON.stringify({ counts, ...report }, null, 2));
  expect(faults).toEqual([]);
  expect({ frames, sequences }).toEqual({ frames: 50_000, sequences: 500 });
  expect(report.bystander.probes).toBeGreaterThan(500);
  // It went in deep, and was turned away early, too.
  expect(sumOf(counts, "then ")).toBe(50_000);
  expect(counts["then answered"]).toBeGreaterThan(10_000);
  expect(counts["then silent"]).toBeLessThan(15_000);
  for (const code of [
    "answer BAD_ENVELOPE",
    "answer UNSUPPORTED_VERSION",
    "answer STALE_BROKER_EPOCH",
    "entry CORRUPT_MESSAGE",
  ])
    expect(counts[code], code).toBeGreaterThan(10);
  for (const code of [
    "again NONE",
    "other content SEQUENCE_NUMBER_TAKEN",
    "closed 1008 BODY_MISMATCH",
    "entry INVALID_RECORD",
  ])
    expect(counts[code], code).toBeGreaterThan(0);
});
