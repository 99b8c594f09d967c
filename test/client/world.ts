// A client's world for tests: virtual time and an in-memory transport with a scripted broker behind the real codec.
import { createRng } from "../../src/base/rng.ts";
import type { ClientDeps } from "../../src/client/context.ts";
import { openClient } from "../../src/client/client.ts";
import type { Client, ConnectOptions } from "../../src/client/types.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import type { Codecs } from "../../src/ports/codecs.ts";
import type { Timers } from "../../src/ports/timers.ts";
import {
  type ConnectionHandlers,
  type MessageConnection,
  type MessageTransport,
  TransportError,
} from "../../src/ports/transport.ts";

interface Scheduled {
  readonly timeMs: number;
  readonly sequence: number;
  readonly callback: () => void;
  isCancelled: boolean;
}

/** Time that passes only when told to. Between two events, all promise reactions run. */
export class VirtualTime {
  #nowMs = 1_000;
  #sequence = 0;
  #scheduled: Scheduled[] = [];

  readonly clock = { monoMs: () => this.#nowMs, wallMs: () => 1_700_000_000_000 + Math.floor(this.#nowMs) };
  readonly timers: Timers = {
    after: (delayMs, callback) => {
      const item = this.#add(delayMs, callback);
      return {
        cancel: () => {
          item.isCancelled = true;
        },
      };
    },
    defer: (callback) => {
      this.#add(0, callback);
    },
  };

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Time goes on while nothing can run, as in a process that is busy. */
  stall(forMs: number): void {
    this.#nowMs += forMs;
  }

  #add(delayMs: number, callback: () => void): Scheduled {
    const item = { timeMs: this.#nowMs + delayMs, sequence: this.#sequence++, callback, isCancelled: false };
    this.#scheduled.push(item);
    return item;
  }

  /** Runs everything that is due within `forMs`. */
  async pass(forMs: number): Promise<void> {
    const endMs = this.#nowMs + forMs;
    for (;;) {
      await turn();
      const next = this.#takeNext(endMs);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.timeMs);
      next.callback();
    }
    this.#nowMs = endMs;
    await turn();
  }

  /** Lets time pass until the promise settles; fails when that takes longer than `limitMs` of virtual time. */
  async until<T>(promise: Promise<T>, limitMs = 300_000): Promise<T> {
    const outcome: { settled: boolean } = { settled: false };
    promise.then(
      () => {
        outcome.settled = true;
      },
      () => {
        outcome.settled = true;
      },
    );
    const endMs = this.#nowMs + limitMs;
    for (;;) {
      await turn();
      if (outcome.settled) return promise;
      const next = this.#takeNext(endMs);
      if (next === undefined) throw new Error(`not settled within ${limitMs} ms of virtual time`);
      this.#nowMs = Math.max(this.#nowMs, next.timeMs);
      next.callback();
    }
  }

  #takeNext(endMs: number): Scheduled | undefined {
    let best: Scheduled | undefined;
    this.#scheduled = this.#scheduled.filter((item) => !item.isCancelled);
    for (const item of this.#scheduled) {
      if (item.timeMs > endMs) continue;
      const isSooner =
        best === undefined ||
        item.timeMs < best.timeMs ||
        (item.timeMs === best.timeMs && item.sequence < best.sequence);
      if (isSooner) best = item;
    }
    if (best !== undefined) this.#scheduled.splice(this.#scheduled.indexOf(best), 1);
    return best;
  }
}

/** Lets all promise reactions run, however long their chain. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** One end of an in-memory connection. What one end sends arrives at the other as an event of its own. */
export class Pipe implements MessageConnection {
  readonly remote: string;
  readonly #time: VirtualTime;
  unsentBytes = 0;
  peer: Pipe | undefined;
  isOpen = true;
  #handlers: ConnectionHandlers<Uint8Array> | undefined;

  constructor(time: VirtualTime, remote: string) {
    this.#time = time;
    this.remote = remote;
  }

  start(handlers: ConnectionHandlers<Uint8Array>): void {
    this.#handlers = handlers;
  }

  send(messages: readonly Uint8Array[]): void {
    if (!this.isOpen) return;
    for (const message of messages) {
      const copy = new Uint8Array(message);
      this.#time.timers.defer(() => this.peer?.receive(copy));
    }
  }

  receive(message: Uint8Array): void {
    if (this.isOpen) this.#handlers?.onReceive(message);
  }

  drain(): void {
    this.#handlers?.onDrain();
  }

  pause(): void {}
  resume(): void {}

  close(reason: string): void {
    this.#time.timers.defer(() => {
      this.end(reason);
      this.peer?.end(reason);
    });
  }

  destroy(): void {
    this.close("destroyed");
  }

  end(reason: string): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#handlers?.onClose(reason);
  }
}

export class FakeNetwork implements MessageTransport {
  readonly #time: VirtualTime;
  readonly #listeners = new Map<string, (connection: MessageConnection) => void>();
  /** Connects to these never settle. */
  readonly blackHoles = new Set<string>();
  connectCount = 0;
  /** The client's ends. */
  readonly pipes: Pipe[] = [];

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  async listen(address: string, onConnection: (connection: MessageConnection) => void) {
    this.#listeners.set(address, onConnection);
    return {
      address,
      close: async () => {
        this.#listeners.delete(address);
      },
    };
  }

  connect(address: string): Promise<MessageConnection> {
    this.connectCount++;
    return new Promise((resolve, reject) => {
      if (this.blackHoles.has(address)) return;
      this.#time.timers.defer(() => {
        const listener = this.#listeners.get(address);
        if (listener === undefined) return reject(new TransportError("refused", address));
        const [near, far] = [new Pipe(this.#time, address), new Pipe(this.#time, "client")];
        this.pipes.push(near);
        near.peer = far;
        far.peer = near;
        listener(far);
        resolve(near);
      });
    });
  }
}

/** Knows "none" and a toy "gzip" that flips every bit. */
export const toyCodecs: Codecs = {
  compress: (codec, bytes) => (codec === "none" ? bytes : bytes.map((byte) => byte ^ 0xff)),
  decompress: (codec, bytes) => (codec === "none" ? bytes : bytes.map((byte) => byte ^ 0xff)),
};

export const quiet = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => quiet,
};

export interface World {
  readonly time: VirtualTime;
  readonly network: FakeNetwork;
  readonly deps: ClientDeps;
  connect(options?: ConnectOptions): Promise<Client>;
}

export const ADDRESS = "broker-1:7070";

export function createWorld(seed = 1): World {
  const time = new VirtualTime();
  const network = new FakeNetwork(time);
  const deps: ClientDeps = {
    clock: time.clock,
    timers: time.timers,
    transport: network,
    checksum: createChecksum({ isNative: false }),
    codecs: toyCodecs,
    logger: quiet,
    rng: createRng(seed),
  };
  return {
    time,
    network,
    deps,
    connect: (options = {}) => time.until(openClient(deps, { brokers: [ADDRESS], ...options })),
  };
}
