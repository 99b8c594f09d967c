// What every benchmark shares: rounds that take the variants in turn (A B A B ...), medians with their range, a table and JSON.
// Machines are shared and noisy, so the figure to judge by is the ratio to a baseline of the same round.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "../src/bench/median.ts";

export interface Variant {
  readonly name: string;
  /** Runs once and resolves to the figure, larger is better unless the unit is one of time. */
  run(): Promise<number>;
}

export interface Summary {
  readonly name: string;
  readonly unit: string;
  readonly median: number;
  readonly min: number;
  readonly max: number;
  readonly samples: readonly number[];
}

/** A figure that is judged: it must reach `floor`, or stay within `most`. */
export interface BoundedSummary extends Summary {
  /** What it is the ratio to, when it is one. */
  readonly baseline?: string;
  readonly floor?: number;
  readonly goal?: number;
  readonly most?: number;
}

export function missesItsBound(row: Summary | BoundedSummary): boolean {
  if ("floor" in row && row.floor !== undefined && row.median < row.floor) return true;
  return "most" in row && row.most !== undefined && row.median > row.most;
}

export function summarise(name: string, unit: string, samples: readonly number[]): Summary {
  return { name, unit, median: median(samples), min: Math.min(...samples), max: Math.max(...samples), samples };
}

/** Every variant once per round, in the same order. Progress goes to stderr. */
export async function interleave(variants: readonly Variant[], rounds: number): Promise<Map<string, number[]>> {
  const samples = new Map<string, number[]>(variants.map((variant) => [variant.name, []]));
  for (let round = 1; round <= rounds; round++) {
    for (const variant of variants) {
      const figure = await variant.run();
      samples.get(variant.name)?.push(figure);
      process.stderr.write(`round ${round}/${rounds}  ${variant.name}: ${figure.toFixed(1)}\n`);
    }
  }
  return samples;
}

/** Round by round the figure over the baseline's. */
export function ratios(samples: readonly number[], baseline: readonly number[]): number[] {
  return samples.map((figure, round) => figure / (baseline[round] ?? Number.NaN));
}

/** The figures of two variants, and the second over the first, judged by `bound`. */
export function comparedRows(
  samples: ReadonlyMap<string, readonly number[]>,
  of: {
    readonly baseline: string;
    readonly judged: string;
    readonly unit: string;
    readonly ratio: string;
    readonly bound: Pick<BoundedSummary, "floor" | "goal" | "most">;
  },
): (Summary | BoundedSummary)[] {
  const { baseline, judged, unit, bound } = of;
  const [base = [], figures = []] = [samples.get(baseline), samples.get(judged)];
  return [
    summarise(baseline, unit, base),
    summarise(judged, unit, figures),
    { ...summarise(of.ratio, "ratio", ratios(figures, base)), baseline, ...bound },
  ];
}

/** Writes back and drops the page cache where the system allows it; says whether it did. */
export function dropPageCache(): boolean {
  execFileSync("sync");
  if (!existsSync("/proc/sys/vm/drop_caches")) return false;
  try {
    writeFileSync("/proc/sys/vm/drop_caches", "1");
    return true;
  } catch {
    return false;
  }
}

export async function withTemporaryDirectory<T>(use: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(process.env["OTTLA_BENCH_DIR"] ?? tmpdir(), "ottla-bench-"));
  try {
    return await use(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

export function printTable(rows: readonly (Summary | BoundedSummary)[]): void {
  const line = (cells: readonly string[]) =>
    `${(cells[0] ?? "").padEnd(44)}${cells
      .slice(1)
      .map((cell) => cell.padStart(12))
      .join("")}\n`;
  process.stdout.write(line(["figure", "median", "min", "max", "unit", "floor", "goal"]));
  for (const row of rows) {
    const digits = row.median < 10 ? 3 : 1;
    const bounded: BoundedSummary = row;
    const bounds = [
      bounded.most === undefined ? (bounded.floor?.toFixed(2) ?? "-") : `<= ${bounded.most}`,
      bounded.goal?.toFixed(2) ?? "-",
    ];
    process.stdout.write(
      line([
        row.name,
        row.median.toFixed(digits),
        row.min.toFixed(digits),
        row.max.toFixed(digits),
        row.unit,
        ...bounds,
      ]),
    );
  }
}
