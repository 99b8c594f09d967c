// The simulator as one file: module by module it computes a quarter longer (scripts/bundled.ts), and nothing in the tests computes as long as whole runs.
import { fileURLToPath, pathToFileURL } from "node:url";
import { bundle } from "../../scripts/bundled.ts";

type WholeRuns = typeof import("./whole-runs.ts");

/** Modules of their own: a mutant that is active in them is not in those that a test imports, nor the other way round. */
export async function bundledRuns(): Promise<WholeRuns> {
  const { file, remove } = bundle(fileURLToPath(new URL("whole-runs.ts", import.meta.url)));
  try {
    return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as WholeRuns;
  } finally {
    remove();
  }
}
