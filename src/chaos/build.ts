// Which build of Ottla the processes of a run are: the one that this file is of, or, run from source, the one in dist/.
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const HERE = import.meta.dirname;

/** The folder that holds `cli/main.js`. OTTLA_TEST_DIST names another build, as in tests. */
export function distDirectory(): string {
  const named = process.env["OTTLA_TEST_DIST"];
  if (named !== undefined && named !== "") return resolve(named);
  return import.meta.filename.endsWith(".ts") ? resolve(HERE, "../../dist") : resolve(HERE, "..");
}

export function mainScript(): string {
  return join(distDirectory(), "cli", "main.js");
}

export function clientScript(): string {
  return join(distDirectory(), "chaos", "clients", "main.js");
}

/** As `--import` takes it. */
export function plantedBugsModule(): string {
  return pathToFileURL(join(distDirectory(), "chaos", "planted-bugs.js")).href;
}
