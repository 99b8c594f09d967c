// The parts of the page: each is there only where the results have something for it.
import { acksColour } from "./colours.ts";
import { type CompareGroup, compareChart, rangeOf } from "./compare-chart.ts";
import { faultsInOrder, faultWords } from "./fault-bands.ts";
import { gapChart, gapRowOf } from "./gap-chart.ts";
import type { Gathered, ReportRun } from "./gather.ts";
import { type Child, element, join, type Markup } from "./markup.ts";
import { percentileSection } from "./percentile-section.ts";
import { usageChart, usagesOf } from "./usage-chart.ts";
import { keyWithout } from "./run-labels.ts";
import { chunksOf, figure, groupTitle, section, withRest } from "./section-parts.ts";
import { sweepChart } from "./sweep-chart.ts";
import { groupBy, sweepsOf } from "./sweeps.ts";
import { latencyRange, timelineChart } from "./timeline-chart.ts";

export function gapSection({ runs }: Gathered): Markup | undefined {
  const rows = runs.flatMap(({ run, title }) => gapRowOf(run, title) ?? []);
  if (rows.length === 0) return undefined;
  return section(
    "How long a partition takes nothing",
    "For each fault, the longest time between two acknowledgements of the partition that waited longest. Logarithmic axis.",
    figure("", (format) => gapChart(rows, format)),
  );
}

const GROUPS_PER_CHART = 4;
const ACKS_ORDER = ["0", "1", "all"];

/** undefined: no two runs differ in acks alone. */
export function acksSection(gathered: Gathered): Markup | undefined {
  const groups = groupBy(gathered.runs, ({ run }) => keyWithout(run, ["acks"])).filter(
    (group) => new Set(group.map(({ run }) => run.labels.acks)).size > 1,
  );
  if (groups.length === 0) return undefined;
  const varying = gathered.varying.filter((name) => name !== "acks");
  const compared = groups.map(
    (group): CompareGroup => ({ title: groups.length > 1 ? groupTitle(group, varying) : "", rows: acksRows(group) }),
  );
  const isUnlike = new Set(groups.flat().map(({ run }) => run.latencyOf)).size > 1;
  const note = isUnlike ? " What counts as latency is not the same for all: see the end of this page." : "";
  return section(
    "Acks levels compared",
    `The same load with nothing answered (0), answered once the leader has written it (1), and once every in-sync replica has it durable (all).${note}`,
    comparisons(compared, gathered),
  );
}

function acksRows(group: readonly ReportRun[]): CompareGroup["rows"] {
  const rank = ({ run }: ReportRun): number => ACKS_ORDER.indexOf(run.labels.acks ?? "");
  return group
    .toSorted((left, right) => rank(left) - rank(right))
    .map(({ run }) => ({ run, title: `acks=${run.labels.acks ?? "none"}`, colour: acksColour(run.labels.acks) }));
}

/** Where acks levels are not what is compared. */
export function runsSection(gathered: Gathered): Markup | undefined {
  // Of failover runs all is said by the pauses: their load is the same.
  if (gathered.runs.length < 2 || gapSection(gathered) !== undefined) return undefined;
  const rows = gathered.runs.map(({ run, title }) => ({ run, title, colour: acksColour(run.labels.acks) }));
  const chunks = chunksOf(rows, GROUPS_PER_CHART * 4).map((chunk): CompareGroup => ({ title: "", rows: chunk }));
  return section("Runs compared", "Throughput, and how latencies are spread.", comparisons(chunks, gathered));
}

function comparisons(groups: readonly CompareGroup[], { results }: Gathered): Child {
  const raw = new Set(results.map(({ limits }) => limits.rawDiskMBs));
  const range = rangeOf(groups, raw.size === 1 ? (results[0]?.limits.rawDiskMBs ?? null) : null);
  const charts = chunksOf(groups, GROUPS_PER_CHART).map((chunk) =>
    figure("", (format) => compareChart(chunk, range, format)),
  );
  return withRest(charts, "charts");
}

export function timelineSection({ runs }: Gathered): Markup | undefined {
  const faulty = runs.filter(({ run }) => run.faults.length > 0);
  const ordered = [...faulty, ...runs.filter((each) => !faulty.includes(each))];
  const range = latencyRange(runs.map(({ run }) => run));
  const figures = ordered.flatMap(
    ({ run, title }) =>
      figure(runs.length > 1 ? title : "", (format) => timelineChart(run, range, format), faultList(run)) ?? [],
  );
  if (figures.length === 0) return undefined;
  const marked = faulty.length > 0 ? " Shaded: a fault was on." : "";
  return section(
    "Latency over time",
    `Logarithmic axis; where windows of time were put together, the worst of them is shown. A line that breaks: nothing came.${marked}`,
    withRest(figures, "runs", Math.max(faulty.length, 3)),
  );
}

const FAULTS_OPEN_MAX = 12;

function faultList(run: ReportRun["run"]): Markup | undefined {
  const faults = faultsInOrder(run.faults);
  if (faults.length === 0) return undefined;
  const list = element(
    "ol",
    { class: "faults" },
    faults.map((fault) => element("li", {}, faultWords(fault))),
  );
  if (faults.length <= FAULTS_OPEN_MAX) return list;
  return element("details", {}, element("summary", {}, `the ${faults.length} faults, as they are numbered`), list);
}

export function sweepSection({ runs }: Gathered): Markup | undefined {
  const figures = sweepsOf(runs.map(({ run }) => run)).map((sweep) =>
    figure(sweep.title, (format) => sweepChart(sweep, format)),
  );
  if (figures.length === 0) return undefined;
  return section("What changes with size and number", "The same load but for one number.", withRest(figures, "sweeps"));
}

export function usageSection({ runs }: Gathered): Markup | undefined {
  const figures = runs.flatMap(({ run, title }) =>
    usagesOf(run).map((usage) =>
      figure([runs.length > 1 ? title : "", usage.title].filter((part) => part !== "").join(": "), (format) =>
        usageChart(usage, format),
      ),
    ),
  );
  if (figures.length === 0) return undefined;
  return section("Processes over time", "What stays level does not leak. Axes from zero.", withRest(figures, "charts"));
}

export const sectionsOf = (gathered: Gathered): Markup =>
  join(
    gapSection(gathered),
    acksSection(gathered) ?? runsSection(gathered),
    timelineSection(gathered),
    percentileSection(gathered),
    sweepSection(gathered),
    usageSection(gathered),
  );
