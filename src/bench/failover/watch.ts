// What the clients of a failover measurement tell: when each partition took something, what failed, how much load there was.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { entryPoint } from "../../platform/package-files.ts";
import { Children } from "../../chaos/children.ts";
import { machineMs } from "../../chaos/machine-clock.ts";
import { longestGap } from "./gaps.ts";
import type { ClientPlan, FromClient } from "./messages.ts";
import type { FailoverTimeline } from "./timeline.ts";

const STUCK_MS = 60_000;
const LOOK_MS = 20;
/** Progress of the load that was told of: it has gone on for a while. */
const LOAD_TOLD = 40;
/** Acknowledgements older than this are of no use any more. */
const KEPT_MS = 120_000;
const END_MS = 20_000;

export interface WatchOptions {
  readonly topic: string;
  readonly partitions: number;
  readonly brokers: readonly string[];
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
  readonly signal: AbortSignal;
}

export class FailoverWatch {
  readonly #acks: number[][];
  readonly #errors = new Map<string, number>();
  readonly #children = new Children();
  readonly #members: ChildProcess[];
  readonly #signal: AbortSignal;
  #load: (readonly [atMs: number, acknowledged: number])[] = [];
  #loadFailed = 0;
  #timeline: FailoverTimeline | undefined;
  acknowledged = 0;

  constructor({ topic, partitions, brokers, recordsPerSecond, recordBytes, signal }: WatchOptions) {
    this.#signal = signal;
    this.#acks = Array.from({ length: partitions }, () => []);
    const probes = this.#acks.map((acks, partition) =>
      this.#start({ kind: "probe", topic, partition, brokers }, (message) => this.#onMessage(message, acks)),
    );
    const load = this.#start({ kind: "load", topic, partitions, recordsPerSecond, recordBytes, brokers }, (message) =>
      this.#onMessage(message, []),
    );
    this.#members = [...probes, load];
  }

  #start(plan: ClientPlan, onMessage: (message: FromClient) => void): ChildProcess {
    const child = this.#children.spawn({
      command: [process.execPath, ...process.execArgv, entryPoint("bench/failover/client-process")],
      env: {},
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      cwd: process.cwd(),
    });
    child.on("message", (message: FromClient) => {
      if (message.kind === "hello") child.send(plan);
      else onMessage(message);
    });
    return child;
  }

  #onMessage(message: FromClient, acks: number[]): void {
    switch (message.kind) {
      case "hello":
        return;
      case "acknowledged":
        acks.push(message.atMs);
        this.acknowledged++;
        this.#timeline?.timed(message.dueMs, message.atMs);
        return;
      case "failed":
        this.#errors.set(message.what, (this.#errors.get(message.what) ?? 0) + 1);
        return;
      case "progress": {
        const before = this.#load.at(-1)?.[1] ?? 0;
        this.#load.push([message.atMs, message.acknowledged]);
        this.#loadFailed = message.failed;
        this.#timeline?.counted(message.atMs, message.acknowledged - before);
      }
    }
  }

  /** What clients tell from now on goes there, too. */
  record(timeline: FailoverTimeline | undefined): void {
    this.#timeline = timeline;
  }

  /** What clients were told besides acknowledgements, and how often. */
  get errors(): Readonly<Record<string, number>> {
    const load = this.#loadFailed === 0 ? [] : [["records of the load", this.#loadFailed] as const];
    return Object.fromEntries([...this.#errors, ...load]);
  }

  #assertRunning(): void {
    this.#signal.throwIfAborted();
    for (const { exitCode, signalCode } of this.#members)
      if (exitCode !== null || signalCode !== null)
        throw new Error(`a client process ended by itself with ${exitCode ?? signalCode}`);
  }

  /** The load has begun, and has gone on for a while. */
  async loaded(): Promise<void> {
    const sinceMs = machineMs();
    while (this.#load.length < LOAD_TOLD) {
      this.#assertRunning();
      if (machineMs() - sinceMs > STUCK_MS) throw new Error("the load does not begin");
      await new Promise((done) => void setTimeout(done, LOOK_MS));
    }
  }

  /** Records a second that the load had acknowledged between these moments. */
  loadRate(fromMs: number, toMs: number): number {
    const within = this.#load.filter(([atMs]) => atMs >= fromMs && atMs <= toMs);
    const first = within[0];
    const last = within.at(-1);
    if (first === undefined || last === undefined || last[0] === first[0]) return 0;
    return Math.round(((last[1] - first[1]) / (last[0] - first[0])) * 1_000);
  }

  /** Every partition has gone on taking records for so long, without a pause of half of it. Rejects when one does not for a minute. */
  async steady(forMs: number): Promise<void> {
    const sinceMs = machineMs();
    for (;;) {
      this.#assertRunning();
      const nowMs = machineMs();
      const fromMs = nowMs - forMs;
      if (fromMs >= sinceMs && this.#acks.every((times) => longestGap(times, fromMs, nowMs).gapMs < forMs / 2)) return;
      if (nowMs - sinceMs > STUCK_MS) throw new Error(`a partition takes nothing: ${this.#lastTimes()}`);
      await new Promise((done) => void setTimeout(done, LOOK_MS));
    }
  }

  #lastTimes(): string {
    const nowMs = machineMs();
    return this.#acks
      .map((times, partition) => `${partition}: ${Math.round(nowMs - (times.at(-1) ?? 0))} ms ago`)
      .join(", ");
  }

  /** The longest time between two acknowledgements of each partition that overlaps the time between these moments. */
  gaps(fromMs: number, toMs: number): number[] {
    return this.#acks.map((times) => Math.round(longestGap(times, fromMs, toMs).gapMs));
  }

  /** Bounds what is kept. */
  forget(): void {
    const untilMs = machineMs() - KEPT_MS;
    for (const times of this.#acks) times.splice(0, Math.max(0, times.findIndex((atMs) => atMs >= untilMs) - 1));
    this.#load = this.#load.filter(([atMs]) => atMs >= untilMs);
  }

  async stop(): Promise<void> {
    const limit = setTimeout(() => this.#children.killNow(), END_MS);
    await Promise.all(this.#members.map(ended));
    clearTimeout(limit);
    await this.#children.close();
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exit = once(child, "exit");
  if (child.connected) child.disconnect();
  await exit;
}
