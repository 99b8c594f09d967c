// The matrix of the reliability benchmark as rows: of a terminal's table and of the one in README.md.
import type { CellLatency, ReliabilityCell, ReliabilityResult } from "./result.ts";

export const HEADERS = [
  "fault",
  "acks",
  "sent",
  "acknowledged",
  "lost",
  "duplicated",
  "longest gap",
  "p50 / p99 before",
  "during",
  "after",
] as const;

const NOTHING = "–";

/** A row for each cell; the fault is named in the first of its rows alone. */
export function tableRows(cells: readonly ReliabilityCell[]): string[][] {
  return cells.map((cell, index) => {
    const isFirst = cells[index - 1]?.fault !== cell.fault;
    return [isFirst ? cell.says : "", cell.acks, ...figuresOf(cell)];
  });
}

function figuresOf({ acks, notRun, failed, figures }: ReliabilityCell): string[] {
  if (figures === null)
    return [
      notRun === null ? `FAILED: ${failed ?? "no reason"}` : `NOT RUN: ${notRun}`,
      ...HEADERS.slice(3).map(() => ""),
    ];
  const { before, during, after } = figures.latencyMs;
  // Nobody answers acks=0: that a record was handed over is no acknowledgement, and takes no time worth telling.
  const isAnswered = acks !== "0";
  return [
    String(figures.sent),
    isAnswered ? String(figures.acknowledged) : NOTHING,
    String(figures.lost),
    String(figures.duplicated),
    isAnswered ? durationText(figures.longestGapMs) : NOTHING,
    ...[before, during, after].map((latency) => (isAnswered ? latencyText(latency) : NOTHING)),
  ];
}

function latencyText(latency: CellLatency | null): string {
  return latency === null ? "none" : `${durationText(latency.p50)} / ${durationText(latency.p99)}`;
}

/** Two digits that count, the unit with them. */
export function durationText(ms: number): string {
  if (ms >= 9_950) return `${Math.round(ms / 1_000)} s`;
  if (ms >= 995) return `${(ms / 1_000).toFixed(1)} s`;
  return ms >= 9.95 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** Of Markdown, with what the figures are of. */
export function readmeTable({ cells, settings, machine, startedAt }: ReliabilityResult): string {
  const line = (values: readonly string[]): string =>
    `| ${values.map((value) => value.replaceAll("|", "\\|")).join(" | ")} |`;
  const align = `|---|---|${"---:|".repeat(HEADERS.length - 2)}`;
  const { nodes, minInSync, rounds, recordsPerSecond, faultMs } = settings;
  const caption =
    `${nodes} nodes on one machine (${machine.cores} cores, ${machine.cpu}, Linux ${machine.kernel}, Node.js ${machine.node}), ` +
    `${settings.replicas} replicas, \`min.insync.replicas\` ${minInSync}; ${recordsPerSecond} records/s of each level; ` +
    `each fault for ${durationText(faultMs)}, ${rounds === 1 ? "once" : `${rounds} times`}; ${startedAt.slice(0, 10)}.`;
  return [line(HEADERS), align, ...tableRows(cells).map(line), "", caption].join("\n");
}
