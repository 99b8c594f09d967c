// The machine and the build that a measurement was taken with.
import { execFileSync } from "node:child_process";
import { cpus, release, totalmem } from "node:os";
import { VERSION } from "../cli/version.ts";
import type { Machine } from "./result.ts";

export function machine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
    node: process.version,
    ottla: VERSION,
  };
}

/** Of the working copy that this build lies in, with a "+" when it has changes; an installed package has none. */
export function commit(): string {
  const git = (...args: readonly string[]) =>
    execFileSync("git", ["-C", import.meta.dirname, ...args], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
  try {
    // Inside node_modules the working copy is another project's.
    if (import.meta.dirname.includes("node_modules")) return "unknown";
    const isChanged = git("status", "--porcelain", "--untracked-files=no", "--", ":/src").trim() !== "";
    return `${git("rev-parse", "--short", "HEAD").trim()}${isChanged ? "+" : ""}`;
  } catch {
    return "unknown";
  }
}
