// Commands for the machine's network, one at a time; what fails says what it was.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

/** What it printed. Rejects with its own words when it fails. `input` is what it reads. */
export async function run(command: readonly string[], input = ""): Promise<string> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { stdio: "pipe" });
  const ended = once(child, "close");
  // A program that is not there or does not read: its exit tells.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (child.exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr.trim() || `exit ${child.exitCode}`}`);
  return stdout;
}

/** Lines of `ip` in the network of process `pid` (undefined: in this one), in one go: the first that fails ends it. */
export async function ipBatch(pid: number | undefined, lines: readonly string[]): Promise<void> {
  const inside = pid === undefined ? [] : ["nsenter", "-t", String(pid), "-n"];
  await run([...inside, "ip", "-batch", "-"], `${lines.join("\n")}\n`);
}
