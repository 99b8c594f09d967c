// What a long run must not show beside loss: failed records, partitions that cannot be read to their end, brokers that grow.
import { growthOf } from "./growth.ts";
import type { BenchRun } from "./result.ts";

/** What is wrong with it, in words; empty: nothing. A run that could not be judged says so in its remarks only. */
export function soakVerdict(run: BenchRun): string[] {
  const faults: string[] = [];
  if (run.records === 0) faults.push("no record came through");
  const failed = Object.values(run.errors).reduce((sum, count) => sum + count, 0);
  if (failed > 0) faults.push(`${failed} records failed (${Object.keys(run.errors).join(", ")})`);
  for (const { process, what, early, late, isTooMuch } of growthOf(run.processes)) {
    if (!isTooMuch) continue;
    const shown = (figure: number) => (what === "memory" ? `${Math.round(figure / 1e6)} MB` : String(figure));
    faults.push(`${what} of ${process} grew from ${shown(early)} to ${shown(late)}`);
  }
  return faults;
}
