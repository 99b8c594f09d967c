// One node of a test cluster: a real broker whose life can be ended or held at any moment, and begun again on the same disk and port.
import type { Broker } from "../broker/types.ts";
import { composeNode } from "../cli/compose.ts";
import type { BrokerConfig } from "../model/config.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { clearTimeout, setImmediate, setTimeout } from "../platform/host-time.ts";
import { createTimers } from "../platform/timers.ts";
import { createWebSocketTransport, type Gate } from "../platform/websocket.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import type { RaftSettings } from "../raft/settings.ts";
import { HeldFiles, heldTimers, heldTransport } from "./held-ports.ts";
import { Life } from "./life.ts";
import type { TestBroker, TestBrokerState } from "./types.ts";

/** As the kernel's backlog of a listening socket: what knocks at a paused node beyond it is turned away. */
const BACKLOG_MAX = 511;

export interface TestNodeParts {
  readonly config: BrokerConfig;
  readonly address: string;
  readonly files: Files;
  readonly logger: Logger;
  readonly raftSettings: Partial<RaftSettings>;
}

interface Process {
  readonly life: Life;
  readonly files: HeldFiles;
  broker: Broker | undefined;
}

const WHEN: Readonly<Record<"kill" | "pause" | "resume" | "stop" | "start", readonly TestBrokerState[]>> = {
  kill: ["starting", "running", "paused", "stopping", "failed"],
  pause: ["running"],
  resume: ["paused"],
  stop: ["running"],
  start: ["stopped", "killed", "failed"],
};

export class TestNode implements TestBroker {
  readonly id: number;
  readonly #parts: TestNodeParts;
  #state: TestBrokerState = "stopped";
  #failure: OttlaError | undefined;
  #process: Process | undefined;
  /** Of the process before: nothing of it touches the disk any more. */
  #isGone: Promise<void> = Promise.resolve();

  constructor(parts: TestNodeParts) {
    this.id = parts.config["node.id"];
    this.#parts = parts;
  }

  get address(): string {
    return this.#parts.address;
  }
  get state(): TestBrokerState {
    return this.#state;
  }
  get failure(): OttlaError | undefined {
    return this.#failure;
  }

  /** Fails, and nothing of it runs any more, when it does not serve by then. */
  async start(withinMs: number): Promise<void> {
    this.#check("start");
    this.#end(this.#state);
    this.#failure = undefined;
    this.#state = "starting";
    const life = new Life();
    const process: Process = { life, files: new HeldFiles(life, this.#parts.files), broker: undefined };
    this.#process = process;
    const killed = life.ended.then(() => {
      throw this.#failure ?? this.#wrong(`node ${this.id} was killed while it started`);
    });
    const timer = setTimeout(() => this.#failed(life, this.#notReady(withinMs)), withinMs);
    try {
      await Promise.race([this.#begin(process), killed]);
    } finally {
      clearTimeout(timer);
    }
  }

  #notReady(withinMs: number): OttlaError {
    return new OttlaError("REQUEST_TIMED_OUT", `node ${this.id} did not serve within ${withinMs} ms`, {
      hint: "it needs a majority of the nodes, with what they had on their disks; give a logger to see what it waits for",
    });
  }

  async #begin(process: Process): Promise<void> {
    const { life } = process;
    await this.#isGone;
    try {
      const { config, logger, raftSettings } = this.#parts;
      const { broker } = await composeNode(config, logger, {
        timers: heldTimers(life, createTimers()),
        files: process.files,
        createTransport: (options) =>
          heldTransport(life, createWebSocketTransport({ ...options, gate: backlogGate(life) })),
        raftSettings,
      });
      if (life.isEnded) return;
      process.broker = broker;
      broker.onFatal((error) => this.#failed(life, error));
      await broker.start();
      if (!life.isEnded) this.#state = "running";
    } catch (thrown) {
      this.#failed(life, asOttlaError(thrown));
      throw thrown;
    }
  }

  #failed(life: Life, error: OttlaError): void {
    if (life.isEnded) return;
    this.#failure = error;
    this.#end("failed");
  }

  pause(): void {
    this.#check("pause");
    this.#state = "paused";
    this.#process?.life.hold();
  }

  resume(): void {
    this.#check("resume");
    this.#state = "running";
    this.#process?.life.release();
  }

  async stop(): Promise<void> {
    this.#check("stop");
    this.#state = "stopping";
    const { life, broker } = this.#process ?? {};
    if (life === undefined) return;
    await Promise.race([broker?.stop(), life.ended]);
    if (life.isEnded) throw this.#wrong(`node ${this.id} was killed while it stopped`);
    this.#end("stopped");
    await this.#isGone;
  }

  async kill(): Promise<void> {
    this.#check("kill");
    this.#end("killed");
    await this.#isGone;
  }

  /** Whatever its state. */
  async cut(): Promise<void> {
    if (WHEN.kill.includes(this.#state)) this.#end("killed");
    await this.#isGone;
  }

  #end(state: TestBrokerState): void {
    this.#state = state;
    const process = this.#process;
    if (process === undefined) return;
    this.#process = undefined;
    process.life.end();
    this.#isGone = process.files.letGo().then(nextTurn).then(nextTurn);
  }

  #check(action: keyof typeof WHEN): void {
    const allowed = WHEN[action];
    if (allowed.includes(this.#state)) return;
    throw this.#wrong(`${action} takes a node that is ${allowed.join(" or ")}: node ${this.id} is ${this.#state}`);
  }

  #wrong(message: string): OttlaError {
    return new OttlaError("WRONG_NODE_STATE", message);
  }
}

/** Sockets that were closed in one turn of the event loop are gone, and their port is free, at the end of the next. */
const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

function backlogGate(life: Life): Gate {
  let waiting = 0;
  return {
    get isHeld() {
      return life.isHeld;
    },
    run(work, dropped) {
      if (life.isHeld && waiting >= BACKLOG_MAX) return dropped();
      waiting++;
      const end = (then: () => void) => () => {
        waiting--;
        then();
      };
      life.run(end(work), end(dropped));
    },
  };
}
