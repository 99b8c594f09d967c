// Runs the built command line as users do: `node dist/cli/main.js`. Builds it first when a source file is newer.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
/** OTTLA_TEST_DIST points the tests at another build. */
const DIST = resolve(process.env["OTTLA_TEST_DIST"] ?? join(ROOT, "dist"));
export const MAIN = join(DIST, "cli", "main.js");
const BUILD_TIMEOUT_MS = 120_000;
/** Ends what hangs. What has to be quick says so itself: a busy machine takes many times as long for everything. */
const HANGS_MS = 100_000;

function newestMs(path: string): number {
  const stat = statSync(path);
  if (!stat.isDirectory()) return /\.(ts|json)$/.test(path) ? stat.mtimeMs : 0;
  return Math.max(0, ...readdirSync(path).map((name) => newestMs(join(path, name))));
}

/** Every build writes its entry points anew. */
const isStale = () => newestMs(join(ROOT, "src")) > mtimeMs(MAIN);
const mtimeMs = (path: string) => (existsSync(path) ? statSync(path).mtimeMs : 0);
/** Beside the build, not in it: what lies in dist is published. */
const NOTES = join(ROOT, "node_modules", ".cache", "ottla-tests");

function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Once per run, also with several workers: one builds, the others wait for it. */
export function ensureBuilt(): void {
  if (process.env["OTTLA_TEST_DIST"] !== undefined || !isStale()) return;
  mkdirSync(NOTES, { recursive: true });
  const lock = join(NOTES, "building");
  for (const startedMs = Date.now(); ; sleepSync(100)) {
    try {
      closeSync(openSync(lock, "wx"));
      break;
    } catch {
      if (!isStale()) return;
      if (Date.now() - mtimeMs(lock) > BUILD_TIMEOUT_MS) rmSync(lock, { force: true });
      if (Date.now() - startedMs > BUILD_TIMEOUT_MS) throw new Error("the build by another worker did not end");
    }
  }
  try {
    const built = spawnSync("npm", ["run", "-s", "build"], { cwd: ROOT, encoding: "utf8" });
    if (built.status !== 0) throw new Error(`the build failed:\n${built.stdout}${built.stderr}`);
  } finally {
    rmSync(lock, { force: true });
  }
}

export interface RunResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stdoutBytes: Buffer;
  /** Without the remark on a connection that takes longer than a second, which says something of the machine. */
  readonly stderr: string;
  /** That remark; mostly empty. */
  readonly connecting: string;
}

const CONNECTING = /^(?:waiting for a broker at |\{"_version":1,"remark":"waiting for a broker at ).*\n/gm;

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

/** The environment of a command under test: nothing of the machine's own Ottla settings or colours. */
export function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(OTTLA_|NO_COLOR|FORCE_COLOR|NODE_OPTIONS|VITEST)/.test(name),
  );
  return { ...Object.fromEntries(kept), ...extra };
}

export function start(args: readonly string[], options: RunOptions = {}): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], { cwd: options.cwd ?? ROOT, env: cleanEnvironment(options.env) });
}

export function ottla(args: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const child = start(args, options);
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(options.input ?? "");
  return collect(child, options.timeoutMs);
}

export function collect(child: ChildProcess, timeoutMs = HANGS_MS): Promise<RunResult> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => void out.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => void err.push(chunk));
  const limit = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  return new Promise((done) => {
    child.once("close", (code, signal) => {
      clearTimeout(limit);
      const stdoutBytes = Buffer.concat(out);
      const said = Buffer.concat(err).toString();
      const [stderr, connecting] = [said.replaceAll(CONNECTING, ""), said.match(CONNECTING)?.join("") ?? ""];
      done({ code, signal, stdoutBytes, stdout: stdoutBytes.toString(), stderr, connecting });
    });
  });
}

/** Resolves when the child's output on this stream matches. */
export function outputMatching(
  child: ChildProcess,
  stream: "stdout" | "stderr",
  pattern: RegExp,
): Promise<RegExpExecArray> {
  let seen = "";
  return new Promise((done, fail) => {
    child[stream]?.on("data", (chunk: Buffer) => {
      seen += chunk.toString();
      const match = pattern.exec(seen);
      if (match !== null) done(match);
    });
    child.once("close", (code) => fail(new Error(`ended with ${code} before ${pattern}; it said:\n${seen}`)));
  });
}

export function json(result: RunResult): Record<string, unknown> {
  return JSON.parse(result.stdout) as Record<string, unknown>;
}

export function temporaryFolder(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "ottla-cli-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Settings that make a node small and quick to start. */
export const SMALL_NODE = ["journal.bytes=8MiB", "disk.low.space.bytes=1MiB", "disk.reserve.bytes=1MiB"];

export interface TestCluster {
  readonly dataDir: string;
  /** host:port of the first node. */
  readonly address: string;
  /** host:port of each, separated by commas. */
  readonly addresses: string;
  /** Runs a command against this cluster. */
  run(args: readonly string[], options?: RunOptions): Promise<RunResult>;
  stop(): Promise<void>;
}

export function writeClusterFile(folder: string, listeners = "ws://127.0.0.1:0"): string {
  const file = join(folder, "cluster.json");
  writeFileSync(file, JSON.stringify({ cluster: "test", nodes: [{ "node.id": 1, listeners }] }));
  return file;
}

/** Of three nodes; start it with --any-port. `top`: more keys of the file. */
export function writeThreeNodesFile(folder: string, top: Readonly<Record<string, unknown>> = {}): string {
  const file = join(folder, "cluster.json");
  const nodes = [1, 2, 3].map((nodeId) => ({ "node.id": nodeId }));
  writeFileSync(file, JSON.stringify({ cluster: "test", ...top, nodes }));
  return file;
}

export const upArguments = (folder: string, file: string) => {
  return [
    "cluster",
    "up",
    "-c",
    file,
    "--data-dir",
    join(folder, "data"),
    ...SMALL_NODE.flatMap((pair) => ["-X", pair]),
  ];
};

/** One node, or with `nodeCount` several; the fourth is no voter. */
export async function startTestCluster({
  nodeCount = 1,
}: {
  readonly nodeCount?: 1 | 3 | 4;
} = {}): Promise<TestCluster> {
  ensureBuilt();
  const folder = temporaryFolder();
  const dataDir = join(folder.path, "data");
  const file = nodeCount === 1 ? writeClusterFile(folder.path) : writeThreeNodesFile(folder.path);
  const more = nodeCount === 1 ? [] : ["--any-port", "-n", String(nodeCount)];
  const up = await ottla([...upArguments(folder.path, file), ...more, "--detach", "--timeout", "90s", "--json"]);
  if (up.code !== 0) throw new Error(`cluster up failed with ${up.code}: ${up.stderr}`);
  const nodes = json(up)["nodes"] as { readonly address: string }[];
  const addresses = nodes.map(({ address }) => address.replace("ws://", "")).join(",");
  return {
    dataDir,
    address: addresses.split(",")[0] ?? "",
    addresses,
    run: (args, options) =>
      ottla(args, { ...options, env: { OTTLA_BOOTSTRAP: addresses, OTTLA_DATA_DIR: dataDir, ...options?.env } }),
    stop: async () => {
      const down = await ottla(["cluster", "down", "--data-dir", dataDir]);
      folder.remove();
      if (down.code !== 0) throw new Error(`cluster down failed with ${down.code}: ${down.stderr}`);
    },
  };
}
