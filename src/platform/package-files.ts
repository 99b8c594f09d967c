// Where the files of this package are, whichever way it runs: from its sources, or built into few files that are elsewhere.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { assert } from "../base/assert.ts";

const isSource = import.meta.filename.endsWith(".ts");
const MAIN = `cli/main.${isSource ? "ts" : "js"}`;

/** The nearest folder above this file that holds the named one. */
function folderWith(name: string): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, name))) {
    assert(folder !== dirname(folder), `${name} is in no folder above ${import.meta.filename}`);
    folder = dirname(folder);
  }
  return folder;
}

/** `cluster.example.json` and the like. */
export function packageFile(name: string): string {
  return join(folderWith("package.json"), name);
}

/** A file that a process or a thread of its own is started with, without its ending: `cli/node-process`. Of the build, or the sources, that run here. */
export function entryPoint(name: string): string {
  return join(folderWith(MAIN), `${name}${isSource ? ".ts" : ".js"}`);
}

/** The folder of the build that runs here; run from source, that in dist/. */
export function buildDirectory(): string {
  return isSource ? packageFile("dist") : folderWith(MAIN);
}
