// Which build of Ottla the processes of a run are: the one that this file is of, or, run from source, the one in dist/.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { buildDirectory } from "../platform/package-files.ts";

/** The folder that holds `cli/main.js`. OTTLA_TEST_DIST names another build, as in tests. */
export function distDirectory(): string {
  const named = process.env["OTTLA_TEST_DIST"];
  if (named !== undefined && named !== "") return resolve(named);
  return buildDirectory();
}

export function mainScript(): string {
  return join(distDirectory(), "cli", "main.js");
}

export function clientScript(): string {
  return join(distDirectory(), "chaos", "clients", "main.js");
}

/** Loaded first by a process, as `--import` takes it. */
const preload = (...path: readonly string[]) => pathToFileURL(join(distDirectory(), "chaos", ...path)).href;
export const plantedBugsModule = () => preload("planted-bugs.js");
export const failpointModule = () => preload("faults", "failpoint-preload.js");

/** Why neither planted bugs nor failpoints are there; undefined: they are. Both are taken out of a published build, and what switches them on. */
export function noSwitches(): string | undefined {
  const isThere = existsSync(join(distDirectory(), "chaos", "planted-bugs.js"));
  return isThere ? undefined : "this build has none (it is a published one)";
}
