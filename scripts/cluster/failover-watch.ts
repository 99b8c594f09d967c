// What the clients of a failover measurement tell: when each partition took something, what failed, how much load there was.
import { LineChild, machineMs } from "./line-child.ts";

const STUCK_MS = 60_000;
const LOOK_MS = 20;
/** Two a second. */
const LOAD_LINES = 8;
/** Acknowledgements older than this are of no use any more. */
const KEPT_MS = 120_000;

export interface WatchOptions {
  readonly topic: string;
  readonly partitions: number;
  readonly brokers: readonly string[];
  readonly recordsPerSecond: number;
  readonly recordBytes: number;
}

export class FailoverWatch {
  readonly #acks: number[][];
  readonly #errors = new Map<string, number>();
  readonly #children: LineChild[];
  /** The load's lines: machine ms, records acknowledged. */
  #load: (readonly [number, number])[] = [];
  #loadFailed = 0;
  acknowledged = 0;

  constructor({ topic, partitions, brokers, recordsPerSecond, recordBytes }: WatchOptions) {
    this.#acks = Array.from({ length: partitions }, () => []);
    const probes = this.#acks.map(
      (_, partition) =>
        new LineChild("failover-probe.ts", [topic, String(partition), ...brokers], (line) =>
          this.#onProbe(partition, line),
        ),
    );
    const loadArgs = [topic, partitions, recordsPerSecond, recordBytes].map(String);
    const load = new LineChild("failover-load.ts", [...loadArgs, ...brokers], (line) => this.#onLoad(line));
    this.#children = [...probes, load];
  }

  /** What clients were told besides acknowledgements, and how often. */
  get errors(): Readonly<Record<string, number>> {
    const load = this.#loadFailed === 0 ? [] : [["records of the load", this.#loadFailed] as const];
    return Object.fromEntries([...this.#errors, ...load]);
  }

  #onProbe(partition: number, line: string): void {
    const [kind, atMs, what, outcome] = line.split(" ");
    if (kind === "a") {
      this.#acks[partition]?.push(Number(atMs));
      this.acknowledged++;
      return;
    }
    const name = `${what} ${outcome}`;
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1);
  }

  #onLoad(line: string): void {
    const [atMs, acknowledged, failed] = line.split(" ").map(Number);
    this.#load.push([atMs ?? 0, acknowledged ?? 0]);
    this.#loadFailed = failed ?? 0;
  }

  /** The load has begun, and has gone on for a while. */
  async loaded(): Promise<void> {
    const sinceMs = machineMs();
    while (this.#load.length < LOAD_LINES) {
      for (const child of this.#children) child.assertRunning();
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
      for (const child of this.#children) child.assertRunning();
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
    for (const times of this.#acks) times.splice(0, times.findIndex((atMs) => atMs >= untilMs) - 1);
    this.#load = this.#load.filter(([atMs]) => atMs >= untilMs);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map((child) => child.stop()));
  }
}

/** `times` ascends. A pause that still goes on at `toMs` counts as far as it has come. */
export function longestGap(
  times: readonly number[],
  fromMs: number,
  toMs: number,
): { readonly gapMs: number; readonly beganMs: number } {
  let longest = { gapMs: 0, beganMs: fromMs };
  let beforeMs: number | undefined;
  for (const atMs of [...times.filter((time) => time <= toMs), toMs]) {
    const gapMs = atMs - (beforeMs ?? fromMs);
    if (atMs > fromMs && gapMs > longest.gapMs) longest = { gapMs, beganMs: beforeMs ?? fromMs };
    beforeMs = atMs;
  }
  return longest;
}
