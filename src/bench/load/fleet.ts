// The load processes of one run: started, told when to begin, and their figures put together. All of them end with the run.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { entryPoint } from "../../platform/package-files.ts";
import { OttlaError } from "../../model/errors.ts";
import { CommandFailure } from "../../cli/failure.ts";
import { NODE_HEAP } from "../../cli/node-child.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { machineMs } from "../../chaos/machine-clock.ts";
import type { TimelineEntry } from "../result.ts";
import { type Outcome, Tally } from "./tally.ts";
import type { FromLoad, LoadPlan, PartitionCount, Span, ToLoad } from "./types.ts";

/** Connecting and learning the topic, of all connections. */
const READY_MS = 120_000;
/** After the measured time: the last answers, and reading to the end. */
const DONE_MS = 120_000;
/** From "go" to the first record: the message must have reached every process. */
const LEAD_MS = 50;
const STDERR_KEPT = 2_000;

export interface FleetOptions {
  /** One for each process. */
  readonly plans: readonly LoadPlan[];
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** Ends the measured time early; what was measured until then counts. */
  readonly signal: AbortSignal;
  /** The measured time begins and has ended. */
  readonly onStart: () => void;
  readonly onEnd: () => void;
  /** Each entry of the timeline as it comes. */
  readonly onEntry: (entry: TimelineEntry) => void;
}

/** Rejects when a process fails or ends by itself. */
export async function runFleet(options: FleetOptions): Promise<Outcome> {
  const fleet = new Fleet(options);
  try {
    return await fleet.run();
  } finally {
    await fleet.close();
  }
}

class Member {
  readonly child: ChildProcess;
  readonly #plan: LoadPlan;
  #log = "";

  constructor(plan: LoadPlan, onMessage: (message: FromLoad) => void, onFailure: (error: Error) => void) {
    this.#plan = plan;
    this.child = fork(entryPoint("bench/load/load-process"), [], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      execArgv: [...process.execArgv, ...NODE_HEAP],
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#log = (this.#log + text).slice(-STDERR_KEPT);
    });
    this.child.once("error", onFailure);
    this.child.once("exit", (code, signal) => onFailure(this.#ended(code, signal)));
    this.child.on("message", (message: FromLoad) => {
      if (message.kind === "hello") this.tell({ kind: "plan", plan: this.#plan });
      else onMessage(message);
    });
  }

  #ended(code: number | null, signal: NodeJS.Signals | null): Error {
    const last = this.#log.trimEnd().split("\n").at(-1) ?? "";
    const how = signal === null ? `exit code ${code}` : String(signal);
    return new CommandFailure({
      code: "LOAD_PROCESS_ENDED",
      message: `a load process ended by itself (${how})${last === "" ? "" : `: ${last}`}`,
      hint: "fewer connections or smaller records need less memory; see also ulimit -n",
      exitCode: EXIT.FAILED,
    });
  }

  tell(message: ToLoad): void {
    if (this.child.connected) this.child.send(message, () => undefined);
  }

  async end(): Promise<void> {
    this.child.removeAllListeners("exit");
    if (this.child.exitCode !== null || this.child.signalCode !== null || this.child.pid === undefined) return;
    const exit = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exit;
  }
}

class Fleet {
  readonly #options: FleetOptions;
  readonly #members: Member[];
  readonly #tally: Tally;
  readonly #failed: Promise<never>;
  #fail: (error: Error) => void = () => undefined;
  readonly #ready = new Countdown();
  readonly #sent = new Countdown();
  readonly #done = new Countdown();
  readonly #acknowledged = new Map<number, number>();
  readonly #stops: (() => void)[] = [];
  #hasEnded = false;

  constructor(options: FleetOptions) {
    this.#options = options;
    const { onEntry } = options;
    this.#tally = new Tally({ windowMs: options.plans[0]?.windowMs ?? 1000, processes: options.plans.length, onEntry });
    this.#failed = new Promise<never>((_, reject) => {
      this.#fail = reject;
    });
    this.#failed.catch(() => undefined);
    for (const countdown of [this.#ready, this.#sent, this.#done]) countdown.start(options.plans.length);
    this.#members = options.plans.map(
      (plan, index) =>
        new Member(
          plan,
          (message) => this.#onMessage(index, message),
          (error) => this.#fail(error),
        ),
    );
  }

  #onMessage(index: number, message: FromLoad): void {
    switch (message.kind) {
      case "hello":
        return;
      case "ready":
        return this.#ready.count();
      case "window":
        return this.#tally.window(index, message);
      case "sent":
        this.#add(message.acknowledged);
        return this.#sent.count();
      case "done":
        this.#tally.done(message);
        return this.#done.count();
      case "failed":
        this.#fail(failureOfMember(message));
    }
  }

  #add(acknowledged: readonly PartitionCount[]): void {
    for (const [partition, records] of acknowledged)
      this.#acknowledged.set(partition, (this.#acknowledged.get(partition) ?? 0) + records);
  }

  async run(): Promise<Outcome> {
    const { plans, warmUpMs, durationMs, signal } = this.#options;
    await this.#within(this.#ready.zero, READY_MS, "the load processes do not connect");
    if (signal.aborted) return this.#tally.outcome(0);
    const beginMs = machineMs() + LEAD_MS;
    const span: Span = { beginMs, startMs: beginMs + warmUpMs, untilMs: beginMs + warmUpMs + durationMs };
    const ended = this.#watch(span);
    this.#tell({ kind: "go", span });
    const lastMs = warmUpMs + durationMs + DONE_MS;
    if (plans[0]?.verb === "e2e") {
      await this.#within(this.#sent.zero, lastMs, "the producers do not end");
      this.#tell({ kind: "drain", acknowledged: [...this.#acknowledged] });
    }
    await this.#within(this.#done.zero, lastMs, "the load processes do not end");
    this.#end();
    return this.#tally.outcome(Math.max(0, ended() - span.startMs));
  }

  /** Tells in time that the measured time begins and ends, and passes a stop on. Returns when it ended. */
  #watch(span: Span): () => number {
    const { signal, onStart, plans } = this.#options;
    const start = setTimeout(onStart, Math.max(0, span.startMs - machineMs()));
    // What an open loop has in its schedule counts until it is there, and so does what is used for it.
    const isClosed = plans[0]?.mode === "closed";
    const end = isClosed ? setTimeout(() => this.#end(), Math.max(0, span.untilMs - machineMs())) : undefined;
    let { untilMs } = span;
    const stop = () => {
      untilMs = Math.min(untilMs, machineMs());
      if (isClosed) this.#end();
      this.#tell({ kind: "stop" });
    };
    signal.addEventListener("abort", stop, { once: true });
    this.#stops.push(
      () => clearTimeout(start),
      () => clearTimeout(end),
      () => signal.removeEventListener("abort", stop),
    );
    return () => untilMs;
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#options.onEnd();
  }

  #tell(message: ToLoad): void {
    for (const member of this.#members) member.tell(message);
  }

  async #within(what: Promise<void>, limitMs: number, says: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new OttlaError("REQUEST_TIMED_OUT", `${says} within ${limitMs / 1000} s`)),
        limitMs,
      );
    });
    try {
      await Promise.race([what, this.#failed, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    await Promise.all(this.#members.map((member) => member.end()));
  }
}

/** Resolves when everyone has reported. */
class Countdown {
  readonly zero: Promise<void>;
  #left = 0;
  #resolve: () => void = () => undefined;

  constructor() {
    this.zero = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  start(count: number): void {
    this.#left = count;
  }

  count(): void {
    if (--this.#left === 0) this.#resolve();
  }
}

function failureOfMember({ code, message }: { readonly code: string; readonly message: string }): CommandFailure {
  return new CommandFailure({ code, message, hint: `ottla errors ${code}`, exitCode: EXIT.FAILED });
}
