// A process of its own with some of a run's connections. Forked by the command, and ends when that does.
import { openRealClient, stderrLogger } from "../../cli/client.ts";
import { failureOf } from "../../cli/failure.ts";
import { machineMs } from "../../chaos/machine-clock.ts";
import type { Client } from "../../client/types.ts";
import { LatencyHistogram } from "../histogram.ts";
import { FollowLoad, partitionsOf, ReplayLoad } from "./consumer-load.ts";
import type { PaceClock } from "./pace.ts";
import { Payload } from "./payload.ts";
import { ProducerLoad } from "./producer-load.ts";
import { Recorder } from "./recorder.ts";
import type { FromLoad, LoadPlan, PartitionCount, Span, ToLoad } from "./types.ts";

const CONNECT_MS = 30_000;
const DRAIN_MS = 60_000;
const SETTLE_MS = 10_000;
const LOOK_AGAIN_MS = 20;
/** Connections opened at the same time. */
const OPENING_MAX = 32;

const clock: PaceClock = {
  nowMs: machineMs,
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

function tell(message: FromLoad): void {
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
}

class LoadProcess {
  readonly #plan: LoadPlan;
  readonly #recorder: Recorder;
  readonly #late = LatencyHistogram.empty();
  readonly #payload: Payload;
  readonly #clients: Client[] = [];
  readonly #producers: ProducerLoad[] = [];
  readonly #replays: ReplayLoad[] = [];
  #follow: FollowLoad | undefined;
  #reader: Client | undefined;
  #cpuAtStart: NodeJS.CpuUsage | undefined;

  constructor(plan: LoadPlan) {
    this.#plan = plan;
    this.#payload = new Payload(plan.recordBytes);
    this.#recorder = new Recorder({ ...plan, nowMs: clock.nowMs, emit: tell });
  }

  async prepare(): Promise<void> {
    const { own } = this.#plan;
    for (let at = 0; at < own.length; at += OPENING_MAX)
      await Promise.all(own.slice(at, at + OPENING_MAX).map((number) => this.#open(number)));
    if (this.#plan.verb === "e2e" && this.#plan.read.length > 0) {
      this.#reader = await this.#connect("reader");
      this.#follow = new FollowLoad({ ...this.#common(this.#reader), partitions: this.#plan.read });
    }
  }

  #common(client: Client) {
    return { plan: this.#plan, client, recorder: this.#recorder, clock };
  }

  async #connect(name: string): Promise<Client> {
    const client = await openRealClient({
      brokers: this.#plan.brokers,
      clientId: `ottla-bench-${name}`,
      connectTimeoutMs: CONNECT_MS,
      codecs: ["none"],
      logger: stderrLogger({ verbosity: -1, isJson: false }, {}, () => undefined),
    });
    this.#clients.push(client);
    return client;
  }

  async #open(number: number): Promise<void> {
    const { verb, connections, partitions } = this.#plan;
    const common = this.#common(await this.#connect(String(number)));
    if (verb === "consume") {
      this.#replays.push(new ReplayLoad({ ...common, partitions: partitionsOf(number, connections, partitions) }));
      return;
    }
    const producer = new ProducerLoad({ ...common, number, late: this.#late, payload: this.#payload });
    await producer.prepare();
    this.#producers.push(producer);
  }

  async run(span: Span): Promise<void> {
    this.#recorder.begin(span);
    const flush = setInterval(() => this.#recorder.flush(machineMs()), this.#plan.windowMs);
    setTimeout(
      () => {
        this.#cpuAtStart = process.cpuUsage();
      },
      Math.max(0, span.startMs - machineMs()),
    );
    this.#follow?.start();
    await clock.sleep(Math.max(0, span.beginMs - machineMs()));
    await Promise.all([...this.#producers.map((load) => load.run(span)), ...this.#replays.map((load) => load.run())]);
    if (this.#plan.verb === "e2e") {
      tell({ kind: "sent", acknowledged: this.#producers.flatMap((load) => load.acknowledged()) });
      return;
    }
    clearInterval(flush);
    this.#done([]);
  }

  async drain(acknowledged: readonly PartitionCount[]): Promise<void> {
    if (this.#follow === undefined || this.#reader === undefined) return this.#done([]);
    const ends = await this.#ends(this.#reader, new Map(acknowledged));
    this.#done(await this.#follow.drain(ends, DRAIN_MS));
  }

  /** What acks 0 and 1 acknowledge can be read a little later: it is waited for, and missing when it does not come. */
  async #ends(reader: Client, acknowledged: ReadonlyMap<number, number>): Promise<Map<number, number>> {
    const { topic, read } = this.#plan;
    for (const giveUpMs = machineMs() + SETTLE_MS; ; await clock.sleep(LOOK_AGAIN_MS)) {
      const offsets = (await reader.admin().offsets(topic)).filter(({ partition }) => read.includes(partition));
      const isThere = offsets.every(({ partition, endOffset }) => endOffset >= (acknowledged.get(partition) ?? 0));
      if (isThere || machineMs() > giveUpMs)
        return new Map(offsets.map(({ partition, endOffset }) => [partition, endOffset]));
    }
  }

  #done(unread: readonly number[]): void {
    this.#recorder.finish();
    const { user, system } = process.cpuUsage(this.#cpuAtStart ?? process.cpuUsage());
    const isChecked = this.#plan.isChecked;
    tell({
      kind: "done",
      cpuSeconds: (user + system) / 1e6,
      errors: this.#recorder.errors,
      late: this.#late.count === 0 ? "" : this.#late.encode(),
      sent: isChecked ? this.#producers.flatMap((load) => load.sentLanes()) : [],
      received: isChecked ? (this.#follow?.received() ?? []) : [],
      unread,
    });
  }

  stop(): void {
    this.#recorder.end(machineMs());
  }
}

/** Does what it is told, one run in its life. */
class Orders {
  #load: LoadProcess | undefined;

  async obey(message: ToLoad): Promise<void> {
    switch (message.kind) {
      case "plan":
        this.#load = new LoadProcess(message.plan);
        await this.#load.prepare();
        tell({ kind: "ready" });
        return;
      case "go":
        await this.#load?.run(message.span);
        return;
      case "drain":
        await this.#load?.drain(message.acknowledged);
        return;
      case "stop":
        this.#load?.stop();
    }
  }
}

function fail(thrown: unknown): void {
  const { code, message } = failureOf(thrown);
  tell({ kind: "failed", code, message });
}

// The terminal's Ctrl-C reaches this process too; when to end is for the command to say.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
process.on("disconnect", () => process.exit());
const orders = new Orders();
process.on("message", (message: ToLoad) => void orders.obey(message).catch(fail));
tell({ kind: "hello" });
