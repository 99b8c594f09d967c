// Finds sweeps among runs: the same but for one number, at three values or more.
import type { BenchRun } from "../result.ts";
import { keyWithout, labelHead, labelWords, orderedNames } from "./run-labels.ts";

export interface SweepSeries {
  readonly title: string;
  /** Ascending by value; a value that was measured more than once has its median throughput's run. */
  readonly points: readonly { readonly value: number; readonly run: BenchRun }[];
}

export interface Sweep {
  /** Of the label that changes. */
  readonly label: string;
  readonly title: string;
  readonly isBytes: boolean;
  /** Told apart by acks. */
  readonly series: readonly SweepSeries[];
}

const VALUES_MIN = 3;

export function sweepsOf(runs: readonly BenchRun[]): Sweep[] {
  const names = orderedNames(runs).filter((name) => runs.some(({ labels }) => typeof labels[name] === "number"));
  return names.flatMap((label) => sweepsOver(label, runs));
}

function sweepsOver(label: string, runs: readonly BenchRun[]): Sweep[] {
  const groups = groupBy(
    runs.filter(({ labels }) => Number.isFinite(labels[label])),
    (run) => keyWithout(run, [label, "acks"]),
  );
  const swept = groups.flatMap((group) => {
    const series = groupBy(group, ({ labels }) => String(labels.acks)).map(seriesOf(label));
    const long = series.filter(({ points }) => points.length >= VALUES_MIN);
    return long.length === 0 ? [] : [{ group, series: long }];
  });
  const others = orderedNames(runs).filter((name) => name !== label && name !== "acks");
  const differing = others.filter((name) => new Set(swept.map(({ group }) => group[0]?.labels[name])).size > 1);
  return swept.map(({ group, series }) => {
    const where = differing.flatMap((name) => {
      const value = group[0]?.labels[name];
      return value === undefined || value === null ? [] : [labelWords(name, value)];
    });
    const title = [`by ${labelHead(label)}`, ...where].join(" · ");
    return { label, title, isBytes: label.endsWith("Bytes"), series };
  });
}

const seriesOf =
  (label: string) =>
  (runs: readonly BenchRun[]): SweepSeries => {
    const acks = runs[0]?.labels.acks;
    const points = groupBy(runs, ({ labels }) => String(labels[label])).flatMap((same) => {
      const sorted = same.toSorted((left, right) => left.mbPerSecond - right.mbPerSecond);
      const run = sorted[Math.floor((sorted.length - 1) / 2)];
      return run === undefined ? [] : [{ value: Number(run.labels[label]), run }];
    });
    return {
      title: acks === null || acks === undefined ? "" : `acks=${acks}`,
      points: points.toSorted((left, right) => left.value - right.value),
    };
  };

export function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Item[][] {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}
