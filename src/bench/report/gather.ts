// The runs of one or several results, each with its place in the report: what differs between the results becomes a label of its runs.
import type { BenchResult, BenchRun } from "../result.ts";
import { drawable } from "./drawable.ts";
import { splitLabels, titlesOf } from "./run-labels.ts";

export interface ReportRun {
  readonly run: BenchRun;
  /** Unlike that of every other run of the report. */
  readonly title: string;
  readonly result: BenchResult;
}

export interface Gathered {
  readonly results: readonly BenchResult[];
  readonly runs: readonly ReportRun[];
  /** What all runs have in common, in words. */
  readonly common: readonly string[];
  /** Labels that tell runs apart. */
  readonly varying: readonly string[];
}

/** What a result says of all of its runs, and how that is called as a label. */
const FACTS: readonly (readonly [label: string, of: (result: BenchResult) => string | number])[] = [
  ["brokers", ({ cluster }) => cluster.brokers],
  ["cpu", ({ machine }) => machine.cpu],
  ["commit", ({ commit }) => shortCommit(commit)],
];

export const shortCommit = (commit: string): string =>
  /^[0-9a-f]{12,}/.test(commit) ? commit.replace(/^([0-9a-f]{9})[0-9a-f]+/, "$1") : commit;

export function gather(results: readonly BenchResult[]): Gathered {
  const differing = FACTS.filter(([, of]) => new Set(results.map(of)).size > 1);
  const pairs = results.flatMap((result) => {
    const labels = Object.fromEntries(differing.map(([name, of]) => [name, of(result)]));
    return result.runs.map((run) => ({ result, run: drawable({ ...run, labels: { ...run.labels, ...labels } }) }));
  });
  const runs = pairs.map(({ run }) => run);
  const { common, varying } = splitLabels(runs);
  const titles = titlesOf(runs, varying);
  return {
    results,
    runs: pairs.map(({ run, result }, index) => ({ run, result, title: titles[index] ?? run.name })),
    common,
    varying,
  };
}
