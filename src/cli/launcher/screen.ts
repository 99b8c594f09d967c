// The live table of `cluster up` as lines for a terminal of a given size. Pure.
import type { ClusterView, NodeRow } from "../cluster/view.ts";
import { viewTable } from "../cluster/view.ts";
import { alignedTable } from "../output.ts";
import { oneLine } from "../failure.ts";

export interface ScreenModel {
  readonly view: ClusterView;
  /** As a person would write it. */
  readonly dataDir: string;
  readonly advice: string;
  /** What came of the last key; null: nothing to say. */
  readonly message: string | null;
  /** A question in place of the line of keys; null: none. */
  readonly prompt: string | null;
  readonly log: { readonly nodeId: number; readonly lines: readonly string[] } | null;
}

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
  readonly paint: boolean;
}

type Style = "plain" | "bold" | "bad" | "warn" | "good" | "dim";

interface Line {
  readonly text: string;
  readonly style: Style;
}

const CODES: Readonly<Record<Style, string>> = { plain: "", bold: "1", bad: "31", warn: "33", good: "32", dim: "2" };
const FINDINGS_MAX = 3;
const LOG_LINES_MAX = 20;
const KEYS = "keys: k kill  r start or restart  p pause or go on  l log  q quit";

const line = (text: string, style: Style = "plain"): Line => ({ text: oneLine(text), style });

/** Never more lines than fit: what matters least is left out. */
export function screenLines(model: ScreenModel, { columns, rows, paint }: ScreenSize): string[] {
  const room = Math.max(1, rows - 1);
  const table = tableLines(model.view);
  const keys = model.view.condition === "stopping" ? "" : KEYS;
  const last = model.prompt === null ? line(keys, "dim") : line(model.prompt, "bold");
  const musts = [header(model), ...table, last];
  let left = room - musts.length;
  const take = (lines: readonly Line[]): readonly Line[] => {
    const taken = lines.slice(0, Math.max(0, left));
    left -= taken.length;
    return taken;
  };
  const message = take(model.message === null ? [] : [line(model.message)]);
  const advice = take([line(model.advice, "good")]);
  const findings = take(findingLines(model.view));
  const log = take(logLines(model.log, left));
  const all = [header(model), ...table, ...findings, ...log, ...message, ...advice, last];
  return all.slice(0, room).map((one) => painted(one, columns, paint));
}

function painted({ text, style }: Line, columns: number, paint: boolean): string {
  // The last column stays free: writing there makes some terminals go on in the next line.
  const fitting = text.length < columns ? text : text.slice(0, Math.max(0, columns - 1));
  return paint && style !== "plain" ? `\u001b[${CODES[style]}m${fitting}\u001b[0m` : fitting;
}

const HEADER_STYLES: Readonly<Record<ClusterView["condition"], Style>> = {
  healthy: "good",
  degraded: "warn",
  "no-quorum": "bad",
  forming: "warn",
  down: "bad",
  starting: "warn",
  stopping: "warn",
};

function header({ view, dataDir }: ScreenModel): Line {
  const { total, up } = view.diagnosis.voters;
  const voters = total === 0 ? "" : `  ${up}/${total} voters`;
  return line(`cluster ${view.cluster} in ${dataDir}  ${view.condition}${voters}`, HEADER_STYLES[view.condition]);
}

function tableLines(view: ClusterView): Line[] {
  const [head = "", ...rows] = alignedTable(viewTable(view, false)).trimEnd().split("\n");
  return [line(head, "bold"), ...rows.map((row, index) => line(row, styleOf(view.nodes[index])))];
}

function styleOf(node: NodeRow | undefined): Style {
  switch (node?.state) {
    case "killed":
    case "failed":
    case "silent":
      return "bad";
    case "paused":
    case "waiting":
    case "fenced":
    case "not-ready":
    case "starting":
    case "stopping":
      return "warn";
    case "stopped":
      return "dim";
    case "running":
    case undefined:
      return "plain";
  }
}

/** What the row of the node says already. */
const TOLD_BY_ROWS: readonly string[] = ["NODE_DOWN", "NODE_NOT_READY", "NODE_FENCED"];

function findingLines({ condition, diagnosis, nodes }: ClusterView): Line[] {
  const reasons = nodes.filter(({ reason }) => reason !== null && reason !== "SIGKILL");
  const why = reasons.map(({ nodeId, reason }) => line(`node ${nodeId}: ${reason}`, "warn"));
  if (condition === "starting" || condition === "stopping") return why;
  const told = diagnosis.findings.filter(({ code }) => !TOLD_BY_ROWS.includes(code));
  const lines = told.slice(0, FINDINGS_MAX).map(({ message }) => line(`! ${message}`, "bad"));
  return [...lines, ...why, ...diagnosis.remarks.slice(0, 1).map((remark) => line(remark, "dim"))];
}

function logLines(log: ScreenModel["log"], left: number): Line[] {
  if (log === null || left < 2) return [];
  const shown = log.lines.slice(-Math.min(LOG_LINES_MAX, left - 1));
  return [line(`log of node ${log.nodeId} (Esc closes it):`, "bold"), ...shown.map((text) => line(`  ${text}`))];
}
