// A file of any size through a pipe into `ottla produce` and out again with `ottla consume`: memory of the three processes while it
// streams by, and whether what came out is what went in. Memory is read from /proc, so this needs Linux.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { type BrokerProcess, withBrokerProcess } from "./broker-process.ts";
import { type BoundedSummary, type Summary, summarise } from "./harness.ts";

const MAIN = join(import.meta.dirname, "../dist/cli/main.js");
const PIECE_BYTES = 256 * 1024;
/** Peaks are compared from here on: buffers have filled and the heap has found its size. */
const WARM_UP_BYTES = 100e6;
const GROWTH_MAX_MIB = 64;

/** Lines of any bytes but LF, always the same ones: mostly a hundred bytes, some empty, a few of some KiB. */
function* pieces(totalBytes: number): Generator<Buffer> {
  let state = 0x9e3779b9;
  const draw = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  const noise = Buffer.from(
    Uint8Array.from({ length: 16_384 }, () => draw() & 0xff).map((byte) => (byte === 10 ? 0 : byte)),
  );
  let number = 0;
  for (let made = 0; made < totalBytes; made += PIECE_BYTES) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, totalBytes - made));
    for (let at = 0; at < piece.length; ) {
      const kind = draw() % 100;
      const sizeBytes = kind < 5 ? 0 : kind < 98 ? 40 + (draw() % 120) : draw() % 8000;
      at += kind < 5 ? 0 : piece.write(`${number++} `, at, "latin1");
      const from = draw() % 8192;
      at += noise.copy(piece, at, from, from + sizeBytes);
      if (at < piece.length) piece[at++] = 10;
    }
    piece[piece.length - 1] = 10;
    yield piece;
  }
}

/** The same sum for the same lines in any order: partitions are read one beside the other. */
class LineSum {
  lines = 0;
  bytes = 0;
  #sumA = 0;
  #sumB = 0;
  #hashA = 0;
  #hashB = 0;

  push(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    let a = this.#hashA;
    let b = this.#hashB;
    for (const byte of chunk) {
      a = Math.imul(a ^ byte, 0x01000193);
      b = Math.imul(b + byte, 0x9e3779b1) ^ (b >>> 15);
      if (byte !== 10) continue;
      this.#sumA = (this.#sumA + a) >>> 0;
      this.#sumB = (this.#sumB + b) >>> 0;
      this.lines++;
      a = 0;
      b = 0;
    }
    this.#hashA = a;
    this.#hashB = b;
  }

  toString(): string {
    return `${this.lines} lines, ${this.bytes} bytes, sums ${this.#sumA.toString(16)} ${this.#sumB.toString(16)}`;
  }
}

/** The most that a process ever held, in MiB; undefined when it has ended. */
function peakOf({ pid }: ChildProcess): number | undefined {
  const kib = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return kib === undefined ? undefined : Number(kib) / 1024;
}

interface Growth {
  readonly warmMib: number;
  readonly endMib: number;
}

/** Takes the peaks of some processes once the stream is warm, and again at its end. */
class PeakWatch {
  readonly #children: Readonly<Record<string, ChildProcess>>;
  readonly #warm = new Map<string, number>();
  readonly #last = new Map<string, number>();
  #nextNote = 0;

  constructor(children: Readonly<Record<string, ChildProcess>>) {
    this.#children = children;
  }

  at(bytes: number): void {
    const isWarm = bytes >= WARM_UP_BYTES;
    for (const [name, child] of Object.entries(this.#children)) {
      if (child.exitCode !== null) continue;
      const peakMib = peakOf(child);
      if (peakMib === undefined) continue;
      this.#last.set(name, peakMib);
      if (isWarm && !this.#warm.has(name)) this.#warm.set(name, peakMib);
    }
    if (bytes >= this.#nextNote) this.#note(bytes);
  }

  #note(bytes: number): void {
    this.#nextNote = bytes + 100e6;
    const figures = [...this.#last].map(([name, mib]) => `${name} ${mib.toFixed(0)} MiB`);
    process.stderr.write(`${(bytes / 1e6).toFixed(0)} MB: peaks ${figures.join(", ")}\n`);
  }

  growthOf(name: string): Growth {
    return { warmMib: this.#warm.get(name) ?? Number.NaN, endMib: this.#last.get(name) ?? Number.NaN };
  }
}

function ottla(
  args: readonly string[],
  { address }: BrokerProcess,
  stdio: ("pipe" | "ignore" | "inherit")[],
): ChildProcess {
  const nodeFlags = (process.env["OTTLA_BENCH_NODE_FLAGS"] ?? "").split(" ").filter((flag) => flag !== "");
  return spawn(process.execPath, [...nodeFlags, MAIN, "-b", address, ...args], { stdio });
}

async function endOf(child: ChildProcess, name: string): Promise<void> {
  if (child.exitCode === null) await once(child, "exit");
  if (child.exitCode !== 0) throw new Error(`${name} ended with ${child.exitCode ?? child.signalCode}`);
}

interface Passage {
  readonly sum: string;
  readonly seconds: number;
  readonly watch: PeakWatch;
}

async function produceFile(broker: BrokerProcess, totalBytes: number): Promise<Passage> {
  const child = ottla(["produce", "big", "-q"], broker, ["pipe", "ignore", "inherit"]);
  const stdin: Writable | null = child.stdin;
  if (stdin === null) throw new Error("no stdin");
  const watch = new PeakWatch({ produce: child, node: broker.child });
  const sum = new LineSum();
  const startedMs = performance.now();
  const ended = endOf(child, "produce");
  for (const piece of pieces(totalBytes)) {
    sum.push(piece);
    if (!stdin.write(piece)) await Promise.race([once(stdin, "drain"), ended]);
    watch.at(sum.bytes);
  }
  stdin.end();
  const sampler = setInterval(() => watch.at(sum.bytes), 20);
  await ended.finally(() => clearInterval(sampler));
  return { sum: sum.toString(), seconds: (performance.now() - startedMs) / 1000, watch };
}

async function consumeFile(broker: BrokerProcess): Promise<Passage> {
  const child = ottla(["consume", "big", "-e", "-q"], broker, ["ignore", "pipe", "inherit"]);
  const stdout: Readable | null = child.stdout;
  if (stdout === null) throw new Error("no stdout");
  const watch = new PeakWatch({ consume: child, "node serving": broker.child });
  const sum = new LineSum();
  const startedMs = performance.now();
  const ended = endOf(child, "consume");
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    sum.push(chunk);
    watch.at(sum.bytes);
  }
  await ended;
  return { sum: sum.toString(), seconds: (performance.now() - startedMs) / 1000, watch };
}

function memoryRows(name: string, { warmMib, endMib }: Growth): (Summary | BoundedSummary)[] {
  return [
    summarise(`${name}: peak at the end`, "MiB", [endMib]),
    { ...summarise("  growth after the first 100 MB", "MiB", [endMib - warmMib]), most: GROWTH_MAX_MIB },
  ];
}

/** `scale` 1 is a file of 1 GB; below 0.2 there is little to see after the first 100 MB. */
export async function benchMemory(scale: number): Promise<(Summary | BoundedSummary)[]> {
  const totalBytes = Math.round(1e9 * scale);
  return withBrokerProcess(async (broker) => {
    const args = ["topic", "create", "big", "--partitions", "6", "--timeout", "20s"];
    await endOf(ottla(args, broker, ["ignore", "ignore", "inherit"]), "topic create");
    const sent = await produceFile(broker, totalBytes);
    const got = await consumeFile(broker);
    if (got.sum !== sent.sum) throw new Error(`what came out differs: ${got.sum}; sent: ${sent.sum}`);
    return [
      ...memoryRows("produce", sent.watch.growthOf("produce")),
      ...memoryRows("node", sent.watch.growthOf("node")),
      ...memoryRows("consume", got.watch.growthOf("consume")),
      ...memoryRows("node, while consuming", got.watch.growthOf("node serving")),
      summarise("produce", "MB/s", [totalBytes / 1e6 / sent.seconds]),
      summarise("consume", "MB/s", [totalBytes / 1e6 / got.seconds]),
    ];
  });
}
