// A process beside an attack. Its script is made one file: by tsx it begins a second of computing later.
import { type ChildProcess, fork } from "node:child_process";
import { bundle } from "../bundled.ts";

/** The file is gone once the process has said something. `flags` are Node's. */
export function forkScript(script: string, args: readonly string[], flags: readonly string[] = []): ChildProcess {
  const { file, remove } = bundle(script);
  const child = fork(file, args, {
    execArgv: ["--enable-source-maps", ...flags],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  return child.once("message", remove).once("exit", remove);
}
