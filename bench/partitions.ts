// Many partitions on one broker (issue: "Many partitions"): what 10,000 idle ones cost those that are written to, in heap, timers, files and at a start.
// `npm run bench -- partitions`.
import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { connect } from "../src/index.ts";
import { type BrokerProcess, withBrokerProcess } from "./broker-process.ts";
import { type BoundedSummary, comparedRows, interleave, type Summary, summarise } from "./harness.ts";
import { produceTo, settle } from "./produce.ts";

const IDLE = 10_000;
const HOT = 100;
const HOT_BYTES = 500_000_000;
const THROUGHPUT_FLOOR = 0.8;
const HEAP_MOST = 8 * 1024;
const HEAP_GOAL = 4 * 1024;
const CLEAN_START_SECONDS_MAX = 10;
/** Of plain reads of the journal, on top of a start after a clean stop. */
const JOURNAL_READS_MOST = 3;
const OPEN_FILES_SETTING = 256;
/** Beside the segments: sockets, journal, superblock, quorum, and what Node itself opens. */
const OTHER_FILES = 64;

const MANY = { "max.partitions": String(IDLE + HOT), "open.files.max": String(OPEN_FILES_SETTING) };

async function createIdle(address: string): Promise<void> {
  const client = await connect({ brokers: [address], connectTimeoutMs: 60_000 });
  await client.admin().createTopic("idle", { partitions: IDLE, replicationFactor: 1, timeoutMs: 120_000 });
  await client.close();
}

const hotLoad = (scale: number) => ({
  acks: "all" as const,
  recordBytes: 1024,
  totalBytes: Math.round(HOT_BYTES * scale),
  partitions: HOT,
});

async function besideIdle(scale: number, openFiles: number[]): Promise<number> {
  return withBrokerProcess(async (broker) => {
    await createIdle(broker.address);
    const rate = await produceTo([broker.address], hotLoad(scale));
    openFiles.push(openFilesOf(broker));
    return rate;
  }, MANY);
}

function openFilesOf({ child }: BrokerProcess): number {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder).filter((name) => isFile(join(folder, name))).length;
}

function isFile(path: string): boolean {
  try {
    return readlinkSync(path).startsWith("/");
  } catch {
    return false;
  }
}

export interface Starts {
  readonly clean: number;
  readonly killed: number;
  readonly journalReads: number;
  /** The same of a program that does nothing but read the journal once and write and sync what was in it. */
  readonly bareReads: number;
}

/** Starts of a broker with 10,000 partitions that each hold something, until it answers. */
const starts = (): Promise<Starts> => answerOf("partitions-start.ts", []);

export interface IdleCost {
  readonly heapBytes: number;
  /** More than without them. */
  readonly timers: number;
}

const idleCost = (): Promise<IdleCost> => answerOf("partitions-heap.ts", [String(IDLE)]);

/** What a process of its own tells before it ends. */
async function answerOf<Answer>(entry: string, args: readonly string[]): Promise<Answer> {
  const execArgv = ["--expose-gc", "--import", "tsx"];
  const child = fork(join(import.meta.dirname, entry), [...args], { execArgv });
  const [answer] = (await once(child, "message")) as [Answer];
  await once(child, "exit");
  return answer;
}

export async function benchPartitions(rounds: number, scale: number): Promise<(Summary | BoundedSummary)[]> {
  const alone = `${HOT} partitions alone`;
  const beside = `${HOT} partitions beside ${IDLE} idle ones`;
  const openFiles: number[] = [];
  const samples = await interleave(
    [
      {
        name: alone,
        run: () => settle().then(() => withBrokerProcess(({ address }) => produceTo([address], hotLoad(scale)))),
      },
      { name: beside, run: () => settle().then(() => besideIdle(scale, openFiles)) },
    ],
    rounds,
  );
  const cost = await idleCost();
  const found = await starts();
  return [
    ...comparedRows(samples, {
      baseline: alone,
      judged: beside,
      unit: "MB/s",
      ratio: "  over them alone",
      bound: { floor: THROUGHPUT_FLOOR },
    }),
    { ...summarise("open files", "files", openFiles), most: OPEN_FILES_SETTING + OTHER_FILES },
    { ...summarise("heap of an idle partition", "bytes", [cost.heapBytes]), most: HEAP_MOST, goal: HEAP_GOAL },
    { ...summarise("timers of 10,000 idle partitions", "timers", [cost.timers]), most: 0 },
    { ...summarise("start after a clean stop", "s", [found.clean]), most: CLEAN_START_SECONDS_MAX },
    summarise("start after kill -9", "s", [found.killed]),
    {
      ...summarise("  over the clean one, in reads of the journal", "reads", [found.journalReads]),
      most: JOURNAL_READS_MOST,
    },
    summarise("  of a bare read, write to as many files, and sync", "reads", [found.bareReads]),
  ];
}
