// What can be injected on this machine. Each probe really tries, and says why when it cannot.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { noSwitches } from "./build.ts";
import type { NodeMount } from "./cluster-types.ts";
import { noNetworks } from "./faults/network-place.ts";
import { processState } from "./faults/pause.ts";
import { mountFor } from "./mounts.ts";
import { prepareShim } from "./shim/setup.ts";

/** What a fault or a check may need of the machine or of the build. */
export type CapabilityName =
  | "signals"
  | "compiler"
  | "preload"
  | "network namespaces"
  | "tmpfs"
  | "loop file system"
  | "file size limit"
  | "descriptor limit"
  | "failpoints"
  | "planted bugs";

export interface Capability {
  readonly name: CapabilityName;
  /** What it is for, for people. */
  readonly says: string;
  /** Why it is not there; null: it is. */
  readonly missing: string | null;
}

export type Capabilities = ReadonlyMap<CapabilityName, Capability>;

const STOPPED_WITHIN_MS = 5_000;
const LOOK_AGAIN_MS = 5;

interface Probe {
  readonly says: string;
  /** In words: not here. `directory` is empty and thrown away. */
  missing(directory: string): string | undefined | Promise<string | undefined>;
}

const PROBES: Readonly<Record<CapabilityName, Probe>> = {
  signals: { says: "kill -9, SIGSTOP and /proc", missing: noSignals },
  compiler: { says: "a C compiler for the preload shim", missing: noCompiler },
  preload: { says: "the shim takes effect in a node process", missing: noPreload },
  "network namespaces": { says: "cut networks", missing: () => noNetworks() },
  tmpfs: { says: "small file systems in memory", missing: (directory) => noMount(directory, "tmpfs") },
  "loop file system": { says: "small file systems on an image", missing: (directory) => noMount(directory, "loop") },
  "file size limit": { says: "writes that fail with EFBIG", missing: () => noLimit("--fsize=1048576") },
  "descriptor limit": { says: "open that fails with EMFILE", missing: () => noLimit("--nofile=64") },
  failpoints: { says: "a crash between two steps of a write", missing: noSwitches },
  "planted bugs": { says: "the self-test's broken builds", missing: noSwitches },
};

export async function probeCapabilities(): Promise<Capabilities> {
  const found = new Map<CapabilityName, Capability>();
  for (const [name, { says, missing }] of Object.entries(PROBES) as [CapabilityName, Probe][]) {
    const directory = mkdtempSync(join(tmpdir(), "ottla-probe-"));
    try {
      found.set(name, { name, says, missing: (await missing(directory)) ?? null });
    } catch (error) {
      found.set(name, { name, says, missing: error instanceof Error ? error.message : String(error) });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }
  return found;
}

/** In words, one line for each that is wanting. */
export function missingOf(needs: readonly CapabilityName[], capabilities: Capabilities): readonly string[] {
  return needs.flatMap((name) => {
    const capability = capabilities.get(name);
    const why = capability === undefined ? "not looked for" : capability.missing;
    return why === null ? [] : [`${name}: ${why}`];
  });
}

async function noSignals(): Promise<string | undefined> {
  if (process.platform !== "linux") return `no /proc on ${process.platform}`;
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  try {
    await once(child, "spawn");
    child.kill("SIGSTOP");
    const untilMs = performance.now() + STOPPED_WITHIN_MS;
    while (processState(child.pid ?? 0) !== "T")
      if (performance.now() > untilMs) return "SIGSTOP does not stop a process";
      else await sleep(LOOK_AGAIN_MS);
    return undefined;
  } finally {
    child.kill("SIGKILL");
  }
}

function noCompiler(directory: string): string | undefined {
  const source = join(directory, "probe.c");
  writeFileSync(source, "#include <unistd.h>\nint probe(void) { return (int)getpid(); }\n");
  const run = spawnSync("cc", ["-shared", "-fPIC", "-o", join(directory, "probe.so"), source], { encoding: "utf8" });
  if (run.error !== undefined) return `cc: ${run.error.message}`;
  return run.status === 0 ? undefined : `cc: ${run.stderr.trim().split("\n")[0] ?? ""}`;
}

/** The shim is loaded into a node process, and counts what that writes. */
async function noPreload(directory: string): Promise<string | undefined> {
  const dataDir = join(directory, "data");
  mkdirSync(dataDir);
  const { env, control } = (await prepareShim(directory)).nodeFor(1, dataDir);
  const write = `require("fs").writeFileSync(${JSON.stringify(join(dataDir, "probe"))}, "x")`;
  const run = spawnSync(process.execPath, ["-e", write], { encoding: "utf8", env: { ...process.env, ...env } });
  const { writes } = control.counters();
  control.close();
  if (run.status !== 0) return run.stderr.trim().split("\n")[0];
  return writes > 0 ? undefined : "a node process writes past the shim";
}

async function noMount(directory: string, kind: NodeMount["kind"]): Promise<string | undefined> {
  const at = join(directory, "at");
  mkdirSync(at);
  const unmount = await mountFor(at, { kind, sizeBytes: 16 * 1024 * 1024 });
  try {
    writeFileSync(join(at, "probe"), "x");
    return undefined;
  } finally {
    await unmount();
  }
}

function noLimit(flag: string): string | undefined {
  const run = spawnSync("prlimit", [flag, "true"], { encoding: "utf8" });
  if (run.error !== undefined) return `prlimit: ${run.error.message}`;
  return run.status === 0 ? undefined : run.stderr.trim();
}
