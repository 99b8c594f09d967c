// `ottla bench report`: results as one HTML file that asks nobody for anything. Everything is in it as it is read, also without its script.
import { createHash } from "node:crypto";
import type { BenchResult } from "../result.ts";
import { gather, type Gathered, type ReportRun, shortCommit } from "./gather.ts";
import { type Child, element, join, type Markup, verbatim } from "./markup.ts";
import { PAGE_SCRIPT } from "./page-script.ts";
import { PAGE_STYLE } from "./page-style.ts";
import { runsTable } from "./runs-table.ts";
import { sectionsOf } from "./sections.ts";
import { tiles } from "./tiles.ts";
import { size, throughput } from "./units.ts";

/** The page may run this one script and nothing else, and may load nothing from anywhere. */
function policy(): string {
  const hash = createHash("sha256").update(PAGE_SCRIPT).digest("base64");
  return `default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`;
}

/** Several results become one report; what differs between them tells their runs apart. */
export function renderReport(results: readonly BenchResult[]): string {
  const gathered = gather(results);
  const title = `Ottla benchmark: ${titleOf(gathered)}`;
  const page = element(
    "html",
    { lang: "en" },
    element(
      "head",
      {},
      element("meta", { charset: "utf-8" }),
      element("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
      element("meta", { "http-equiv": "Content-Security-Policy", content: policy() }),
      element("link", { rel: "icon", href: "data:," }),
      element("title", {}, title),
      element("style", {}, verbatim(PAGE_STYLE)),
    ),
    element("body", {}, bodyOf(gathered), element("script", {}, verbatim(PAGE_SCRIPT))),
  );
  return `<!doctype html>\n${page.markup}\n`;
}

function bodyOf(gathered: Gathered): Markup {
  return join(
    element(
      "main",
      {},
      head(gathered),
      warnings(gathered),
      gathered.runs.length === 0 ? nothing() : [tiles(gathered), sectionsOf(gathered), table(gathered)],
      facts(gathered),
    ),
    element("div", { id: "tip", hidden: "hidden", "aria-hidden": "true" }),
  );
}

function titleOf({ runs, results }: Gathered): string {
  const verbs = [...new Set(runs.map(({ run }) => run.labels.verb))];
  if (verbs.length > 0) return verbs.join(", ");
  return results.length === 0 ? "no result" : "nothing measured";
}

function head(gathered: Gathered): Markup {
  const { results, common } = gathered;
  const when = [...new Set(results.map(({ startedAt }) => moment(startedAt)))];
  const commits = [...new Set(results.map(({ commit }) => shortCommit(commit)))];
  const from = when.length > 1 ? `${when[0]} to ${when.at(-1)}` : (when[0] ?? "");
  const origin = [from, ...(commits.length > 0 ? [`commit ${commits.join(", ")}`] : [])].filter((part) => part !== "");
  return element(
    "header",
    {},
    element(
      "div",
      {},
      element("div", { class: "top" }, "Ottla benchmark"),
      element("h1", {}, capital(titleOf(gathered))),
      common.length > 0 && element("div", { class: "lead" }, common.join(" · ")),
      element("div", { class: "small" }, origin.join(" · ")),
    ),
    element("button", { id: "theme", type: "button", hidden: "hidden" }, "Dark"),
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** 2026-03-01T10:00:00.000Z -> 2026-03-01 10:00 UTC; what is no such time stays as it is. */
const moment = (text: string): string => text.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*Z$/, "$1 $2 UTC");

function warnings({ results }: Gathered): Child {
  const ended = results.filter(({ isComplete }) => !isComplete);
  if (ended.length === 0) return undefined;
  const text = `${ended.length === results.length ? "This benchmark was" : `${ended.length} of ${results.length} benchmarks were`} ended early: what was measured until then is shown, the rest is missing.`;
  return element("div", { class: "warning", role: "note" }, element("p", {}, text));
}

const nothing = (): Markup =>
  element(
    "section",
    {},
    element("h2", {}, "Nothing was measured"),
    element("p", { class: "lead" }, "The results hold no runs."),
  );

function table(gathered: Gathered): Markup {
  const { runs } = gathered;
  const remarks = saidOf(runs, ({ remarks: own }) => own);
  const errors = saidOf(runs, ({ errors: own }) =>
    Object.entries(own).map(([code, count]) => `${code}, ${count} times`),
  );
  const list = (items: readonly string[], name: string): Child =>
    items.length > 0 && [
      element("h3", { class: "list" }, name),
      element(
        "ul",
        {},
        items.map((item) => element("li", {}, item)),
      ),
    ];
  return element(
    "section",
    {},
    element("h2", {}, runs.length === 1 ? "The run in figures" : "All runs in figures"),
    element(
      "p",
      { class: "lead" },
      "MB = 1,000,000 bytes of record values, without keys and headers of any layer. CPU: of all processes together, per acknowledged GB.",
    ),
    element("figure", {}, runsTable(gathered), list(errors, "Errors"), list(remarks, "Remarks")),
  );
}

const TITLES_MAX = 4;

/** What is said of several runs is said once, with whom it is about. */
function saidOf(runs: readonly ReportRun[], of: (run: ReportRun["run"]) => readonly string[]): string[] {
  const about = new Map<string, string[]>();
  for (const { run, title } of runs) for (const text of of(run)) about.set(text, [...(about.get(text) ?? []), title]);
  return [...about].map(([text, titles]) => {
    if (runs.length === 1) return text;
    if (titles.length === runs.length) return `all runs: ${text}`;
    const more = titles.length > TITLES_MAX ? ` and ${titles.length - TITLES_MAX} more` : "";
    return `${titles.slice(0, TITLES_MAX).join("; ")}${more}: ${text}`;
  });
}

function facts({ results, runs }: Gathered): Child {
  if (results.length === 0) return undefined;
  const timed = runs.filter(({ run }) => run.latencyMs !== null);
  const latency = saidOf(timed, ({ latencyOf }) => [`latency is ${latencyOf}`]);
  return element(
    "section",
    {},
    element("h2", {}, "How this was measured"),
    latency.length > 0 &&
      element(
        "ul",
        {},
        latency.map((text) => element("li", {}, capital(text))),
      ),
    results.map((result, index) => [
      results.length > 1 && element("h3", { class: "list" }, `Result ${index + 1} of ${results.length}`),
      element(
        "dl",
        { class: "facts" },
        factsOf(result).map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
      ),
    ]),
    element("footer", {}, "This file holds everything that it shows and asks no network for anything."),
  );
}

type Fact = [string, Child];

function factsOf({ machine, cluster, limits, command, commit, startedAt }: BenchResult): Fact[] {
  const where = cluster.isOwn ? ", started for this measurement on this machine, with empty directories" : "";
  const raw = [
    limits.rawDiskMBs === null
      ? "disk not measured"
      : `disk ${throughput(limits.rawDiskMBs)} (writes of 64 KiB, not synced)`,
    limits.rawSocketMBs === null
      ? "socket not measured"
      : `socket ${throughput(limits.rawSocketMBs)} (one loopback connection)`,
  ];
  return [
    ["command", element("code", {}, command)],
    ["machine", `${machine.cpu}, ${machine.cores} cores, ${size(machine.memoryBytes)} of memory`],
    ["software", `${machine.kernel}, Node ${machine.node.replace(/^v/, "")}, Ottla ${machine.ottla}`],
    ["brokers", `${cluster.brokers}${where}`],
    ...(limits.rawDiskMBs === null && limits.rawSocketMBs === null
      ? []
      : [["raw limits", raw.join("; ")] satisfies Fact]),
    ["commit", commit],
    ["started", moment(startedAt)],
  ];
}
