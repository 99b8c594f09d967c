// How commands to paste are written: the way this very command was called, short paths, what is needed to find the same cluster.
import { basename, relative, resolve } from "node:path";
import { DEFAULT_DATA_DIR } from "./data-dir.ts";

/** npx finds the command in the project that npm was started in. */
export function ottlaCommand(): string {
  const script = process.argv[1] ?? "ottla";
  if (process.env["npm_command"] !== undefined) return "npx ottla";
  if (basename(script) === "ottla") return "ottla";
  return `node ${relative(process.cwd(), script)}`;
}

export function shortPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith("..") || near === "" ? path : `./${near}`;
}

const isDefault = (dataDir: string) => dataDir === resolve(DEFAULT_DATA_DIR);

/** What `cluster` commands need to find the cluster of this directory. */
export function dataDirFlag(dataDir: string): string {
  return isDefault(dataDir) ? "" : ` --data-dir ${quoted(shortPath(dataDir))}`;
}

const quoted = (path: string) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** `ottla`, with what its other commands need to find the cluster of this directory; short, and true after a start on other ports. */
export function ottlaFor(dataDir: string): string {
  return isDefault(dataDir) ? ottlaCommand() : `OTTLA_DATA_DIR=${quoted(shortPath(dataDir))} ${ottlaCommand()}`;
}

/** Commands that show what the cluster does. */
export function firstSteps(ottla: string): string[] {
  return [
    `  ${ottla} topic create greetings`,
    `  echo hello | ${ottla} produce greetings`,
    `  ${ottla} consume greetings -o start -e`,
  ];
}
