// The command line as a user types it: each command a process of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
const MAIN = join(resolve(process.env["OTTLA_TEST_DIST"] ?? join(ROOT, "dist")), "cli", "main.js");
/** For a command that is to end by itself soon. */
const COMMAND_MS = 90_000;

const running = new Set<ChildProcess>();
process.on("exit", () => running.forEach((child) => void child.kill("SIGKILL")));

/** Nothing of the machine's own Ottla settings. It ends with this process. */
export function spawnOttla(
  args: readonly string[],
  stdio: readonly (number | "ignore" | "pipe")[] = ["ignore", "pipe", "pipe"],
): ChildProcess {
  const kept = Object.entries(process.env).filter(([name]) => !/^(OTTLA_|NODE_OPTIONS|VITEST)/.test(name));
  const env = Object.fromEntries(kept);
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: ROOT, env, stdio: [...stdio] });
  running.add(child);
  return child.once("close", () => running.delete(child));
}

/** What it said; rejects when it does not end with 0. */
export async function ottla(args: readonly string[]): Promise<string> {
  const child = spawnOttla(args);
  let out = "";
  let said = "";
  child.stdout?.on("data", (chunk: Buffer) => (out += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const limit = setTimeout(() => child.kill("SIGKILL"), COMMAND_MS);
  await once(child, "close");
  clearTimeout(limit);
  if (child.exitCode !== 0) throw new Error(`ottla ${args.join(" ")} ended with ${child.exitCode}: ${out}${said}`);
  return out;
}

export async function ottlaJson<Answer>(args: readonly string[]): Promise<Answer> {
  return JSON.parse(await ottla([...args, "--json"])) as Answer;
}

export interface NodeRow {
  readonly nodeId: number;
  readonly address: string;
  readonly dataDir: string;
  readonly logFile: string;
}
