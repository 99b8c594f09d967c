// Runs the layer check and then checks the check: a run that did not see every TypeScript file under src/ fails.
// (A mismatch of TypeScript versions makes the tool report "no violations" over 0 modules.)
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

interface CruiseReport {
  readonly modules: readonly { readonly source: string }[];
  readonly summary: {
    readonly violations: readonly {
      readonly rule: { readonly name: string; readonly severity: string };
      readonly from: string;
      readonly to: string;
      readonly comment?: string;
    }[];
    readonly ruleSetUsed?: { readonly forbidden?: readonly { readonly name?: string; readonly comment?: string }[] };
  };
}

const TOOL = fileURLToPath(new URL("../node_modules/dependency-cruiser/bin/dependency-cruise.mjs", import.meta.url));

/** What is wrong with the layers of the tree at `root`; empty when nothing is. */
export function layerFaults(root: string): string[] {
  const run = spawnSync(
    process.execPath,
    [TOOL, "src", "--config", ".dependency-cruiser.cjs", "--output-type", "json"],
    { cwd: root, encoding: "utf8", maxBuffer: 256 * 1024 * 1024 },
  );
  if (run.stdout === "") return [`dependency-cruiser said nothing (exit ${run.status}): ${run.stderr.trim()}`];
  return reportFaults(JSON.parse(run.stdout) as CruiseReport, sourceFiles(root));
}

function reportFaults(report: CruiseReport, expected: ReadonlySet<string>): string[] {
  const comments = new Map((report.summary.ruleSetUsed?.forbidden ?? []).map((rule) => [rule.name, rule.comment]));
  const faults = report.summary.violations.map(
    ({ rule, from, to }) => `${rule.name}: ${from} -> ${to} (${comments.get(rule.name) ?? rule.severity})`,
  );
  const cruised = new Set(report.modules.map((module) => module.source).filter((path) => /^src\/.*\.ts$/.test(path)));
  const missed = [...expected].filter((path) => !cruised.has(path));
  const extra = [...cruised].filter((path) => !expected.has(path));
  if (expected.size === 0) faults.push("there is no TypeScript file under src/");
  if (missed.length > 0)
    faults.push(`the layer check saw ${cruised.size} of ${expected.size} files: not ${missed.slice(0, 5).join(", ")}`);
  if (extra.length > 0) faults.push(`the layer check saw files that are not there: ${extra.slice(0, 5).join(", ")}`);
  return faults;
}

function sourceFiles(root: string): Set<string> {
  const entries = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" });
  return new Set(entries.filter((path) => path.endsWith(".ts")).map((path) => `src/${path}`));
}

if (import.meta.filename === process.argv[1]) {
  const faults = layerFaults(process.cwd());
  for (const fault of faults) console.error(`layers: ${fault}`);
  if (faults.length === 0)
    console.error(`layers: ${sourceFiles(process.cwd()).size} modules, each within its allow-list`);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
