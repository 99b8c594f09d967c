// ottla cluster logs: the end of the nodes' logs, and with -f what is added to them, also after they were rotated.
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../../model/exit-codes.ts";
import { CommandFailure, oneLine } from "../failure.ts";
import { nodeFolder, nodeFolders, nodeLogOf } from "../cluster/folders.ts";
import type { Invocation } from "../invocation.ts";
import { readable, stderrLogOf, tailOf } from "../log-tail.ts";
import { exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { launcherLogOf, type NodeState } from "../state-file.ts";
import { parseInteger } from "../values.ts";
import { type DirectoryFlags, directoryOf, nodesOf, runningCluster, stateOf } from "./cluster-target.ts";

export interface LogsFlags extends DirectoryFlags {
  readonly follow?: boolean;
  readonly lines?: string;
}

type LoggedNode = Pick<NodeState, "nodeId" | "logFile">;

interface Source {
  /** Before each line, where several are shown. */
  readonly label: string;
  readonly file: string;
}

const FOLLOW_MS = 200;
const CHUNK_BYTES = 256 * 1024;
const LINES_MAX = 1000;

export async function clusterLogs({ args, flags, output }: Invocation<LogsFlags>): Promise<number> {
  const dataDir = directoryOf(flags);
  const count = parseInteger(flags.lines ?? "20", "-n", { min: 0, max: LINES_MAX });
  const sources = sourcesOf(dataDir, args, flags.follow === true);
  const print = (source: Source, line: string) => {
    const text = output.isJson ? asJson(source, line) : oneLine(readable(line));
    output.line(sources.length > 1 && !output.isJson ? `[${source.label}] ${text}` : text);
  };
  const printLast = (source: Source): number => {
    const { lines, endByte } = reading(source, () => tailOf(source.file, count));
    for (const line of lines) print(source, line);
    return endByte;
  };
  if (flags.follow !== true) {
    for (const source of sources) printLast(source);
    return EXIT.OK;
  }
  let stopped: StopSignal | undefined;
  const off = onStopSignals({
    onFirst: (signal) => {
      stopped = signal;
    },
    onAgain: (signal) => process.exit(exitCodeOfSignal(signal)),
  });
  // Only now: whoever sees the first line may stop it.
  const followers = sources.map((source) => {
    const endByte = printLast(source);
    return reading(source, () => new Follower(source, endByte, (line) => print(source, line)));
  });
  while (stopped === undefined) {
    for (const follower of followers) reading(follower, () => follower.read());
    await delay(FOLLOW_MS);
  }
  off();
  return exitCodeOfSignal(stopped);
}

/** What the file system says, by code. */
function reading<T>({ file }: Pick<Source, "file">, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    const { code, syscall } = thrown as NodeJS.ErrnoException;
    if (syscall === undefined) throw thrown;
    const message = `${file}: ${code === "EACCES" ? "permission denied" : code}`;
    const hint = "run it as the user that the cluster runs as";
    throw new CommandFailure({ code: "FILE_UNREADABLE", message, hint, exitCode: EXIT.FAILED }, thrown);
  }
}

/** Without arguments all nodes; "launcher" is the launcher in the background. What is followed may be empty as yet. */
function sourcesOf(dataDir: string, args: readonly string[], isFollowed: boolean): Source[] {
  const isLauncher = (text: string) => text === "launcher";
  const launcher = args.some(isLauncher) ? [{ label: "launcher", file: launcherLogOf(dataDir) }] : [];
  const named = args.filter((text) => !isLauncher(text));
  if (named.length === 0 && launcher.length > 0) return launcher;
  const known = stateOf(dataDir)?.nodes ?? nodesOnDisk(dataDir);
  if (known.length === 0) runningCluster(dataDir);
  const nodes = named.length === 0 ? known : nodesOf(known, named);
  const own = nodes.flatMap(({ nodeId, logFile }) => {
    const label = `n${nodeId}`;
    return [
      { label, file: logFile },
      { label: `${label} stderr`, file: stderrLogOf(logFile) },
    ].filter(({ file }) => file === logFile || isFollowed || isFilled(file));
  });
  return [...launcher, ...own];
}

/** After an ordered stop, or a start that failed. */
function nodesOnDisk(dataDir: string): LoggedNode[] {
  return nodeFolders(dataDir).map((nodeId) => ({
    nodeId,
    logFile: nodeLogOf(nodeFolder(dataDir, nodeId)),
  }));
}

const isFilled = (file: string) => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;

function asJson({ label }: Source, line: string): string {
  try {
    JSON.parse(line);
    return line;
  } catch {
    return JSON.stringify({ source: label, text: line });
  }
}

class Follower {
  readonly file: string;
  readonly #onLine: (line: string) => void;
  #fd: number | undefined;
  #inode = 0;
  #at: number;
  #rest = "";

  constructor({ file }: Source, fromByte: number, onLine: (line: string) => void) {
    this.file = file;
    this.#onLine = onLine;
    this.#at = fromByte;
    this.#open();
  }

  /** What was added since the last call. The rest of a renamed file is read before its successor. */
  read(): void {
    this.#drain();
    const stat = statSync(this.file, { throwIfNoEntry: false });
    if (stat === undefined) return;
    const isOther = stat.ino !== this.#inode;
    if (!isOther && stat.size >= this.#at) return;
    if (isOther && this.#fd !== undefined) closeSync(this.#fd);
    this.#at = 0;
    this.#rest = "";
    if (isOther) this.#open();
    this.#drain();
  }

  #open(): void {
    if (!existsSync(this.file)) return;
    this.#fd = openSync(this.file, "r");
    this.#inode = statSync(this.file).ino;
  }

  #drain(): void {
    if (this.#fd === undefined) return;
    const buffer = Buffer.alloc(CHUNK_BYTES);
    for (;;) {
      const bytes = readSync(this.#fd, buffer, 0, buffer.length, this.#at);
      if (bytes === 0) return;
      this.#at += bytes;
      const lines = (this.#rest + buffer.toString("utf8", 0, bytes)).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "") this.#onLine(line);
    }
  }
}
