// One simulated connection: its two ends, the pipes between them, and the ways in which it can break.
import { assert } from "../base/assert.ts";
import type { Connection, ConnectionHandlers } from "../ports/transport.ts";
import type { SimNetwork } from "./network.ts";
import type { Path } from "./path.ts";
import { Pipe } from "./pipe.ts";
import type { Incarnation } from "./world.ts";

export type Carried = "messages" | "bytes";

/** Which ends of a connection hear that it broke. */
export type Cut = "both" | "one" | "silent";

/** How long a close waits for the peer's. */
const CLOSE_WAIT_MS = 1000;

/** An end of a connection whose peer is silent is given up after about this long: pings every 20 s, two of them unanswered. */
export const SILENT_TIMEOUT_MS = 20_000;

/** Both ends of one connection. */
export class Link {
  readonly clientEnd: Endpoint;
  readonly serverEnd: Endpoint;
  readonly #network: SimNetwork;
  #isBroken = false;
  #isSevered = false;

  constructor(
    network: SimNetwork,
    options: { client: Incarnation; server: Incarnation; address: string; carried: Carried },
  ) {
    const { client, server, address, carried } = options;
    this.#network = network;
    this.clientEnd = new Endpoint(this, { network, owner: client, remote: address });
    this.serverEnd = new Endpoint(this, { network, owner: server, remote: client.node });
    const pipe = (from: Endpoint, to: Endpoint): Pipe =>
      new Pipe(network.world, {
        rng: network.rng,
        ends: { sender: from.owner, receiver: to.owner, label: `${from.owner.node} to ${to.owner.node}` },
        path: network.path(from.owner.node, to.owner.node),
        wayBack: network.path(to.owner.node, from.owner.node),
        cutsChunks: carried === "bytes",
        handlers: {
          onReceive: (bytes) => to.receive(bytes),
          onEnd: (reason) => to.peerClosed(reason),
          onDrain: () => from.drained(),
        },
      });
    this.clientEnd.attach({
      outgoing: pipe(this.clientEnd, this.serverEnd),
      incoming: pipe(this.serverEnd, this.clientEnd),
    });
    this.serverEnd.attach({ outgoing: this.clientEnd.incoming, incoming: this.clientEnd.outgoing });
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  endOf(owner: Incarnation): Endpoint | undefined {
    return [this.clientEnd, this.serverEnd].find((end) => end.owner === owner);
  }

  uses(path: Path): boolean {
    const client = this.clientEnd.owner.node;
    const server = this.serverEnd.owner.node;
    return (path.from === client && path.to === server) || (path.from === server && path.to === client);
  }

  isOf(machine: string): boolean {
    return this.clientEnd.owner.node === machine || this.serverEnd.owner.node === machine;
  }

  stallOne(durationMs: number): void {
    (this.#network.rng.chance(0.5) ? this.clientEnd : this.serverEnd).outgoing.stall(durationMs);
  }

  hurry(): void {
    this.clientEnd.outgoing.hurry();
    this.serverEnd.outgoing.hurry();
  }

  /** `silentMs`: how long an end that is not told takes to notice. */
  break(cut: Cut, silentMs = SILENT_TIMEOUT_MS): void {
    this.#sever();
    switch (cut) {
      case "both":
        this.resetEnds("connection reset");
        return;
      case "one": {
        const [first, second] = this.#network.rng.chance(0.5)
          ? [this.clientEnd, this.serverEnd]
          : [this.serverEnd, this.clientEnd];
        first.closedLater("connection reset", this.#network.link.delayMs);
        second.closedLater("connection timed out", silentMs);
        return;
      }
      case "silent":
        this.clientEnd.closedLater("connection timed out", silentMs);
        this.serverEnd.closedLater("connection timed out", silentMs);
        return;
    }
  }

  /** This end cuts it, or is gone: the other one hears it, if anything gets there. */
  abandon(end: Endpoint): void {
    this.#sever();
    const other = this.#opposite(end);
    const { isCut } = this.#network.path(end.owner.node, other.owner.node);
    const { delayMs } = this.#network.link;
    end.closedLater("connection reset", delayMs);
    other.closedLater(isCut ? "connection timed out" : "connection reset", isCut ? SILENT_TIMEOUT_MS : delayMs);
  }

  /** The process is gone; what its machine was given to send still goes out, perhaps late (N3). */
  outlive(end: Endpoint, lateByMs: number): void {
    this.#isBroken = true;
    const other = this.#opposite(end);
    other.outgoing.cut();
    other.incoming.stall(lateByMs);
    other.incoming.end("connection reset");
  }

  /** What was sent may still arrive, though the process that sent it may be gone. */
  get isSevered(): boolean {
    return this.#isSevered;
  }

  #sever(): void {
    this.#isBroken = true;
    this.#isSevered = true;
    this.clientEnd.outgoing.cut();
    this.clientEnd.incoming.cut();
  }

  #opposite(end: Endpoint): Endpoint {
    return this.clientEnd === end ? this.serverEnd : this.clientEnd;
  }

  resetEnds(reason: string): void {
    this.clientEnd.closedLater(reason, this.#network.link.delayMs);
    this.serverEnd.closedLater(reason, this.#network.link.delayMs);
  }

  endClosed(): void {
    if (this.clientEnd.isClosed && this.serverEnd.isClosed) this.#network.remove(this);
  }
}

/** One end, whatever it carries. */
export class Endpoint {
  readonly owner: Incarnation;
  readonly remote: string;
  readonly #link: Link;
  readonly #network: SimNetwork;
  #outgoing: Pipe | undefined;
  #incoming: Pipe | undefined;
  #handlers: ConnectionHandlers<Uint8Array> | undefined;
  #isClosing = false;
  #isClosed = false;

  constructor(link: Link, options: { network: SimNetwork; owner: Incarnation; remote: string }) {
    this.#link = link;
    this.#network = options.network;
    this.owner = options.owner;
    this.remote = options.remote;
  }

  attach(pipes: { outgoing: Pipe; incoming: Pipe }): void {
    this.#outgoing = pipes.outgoing;
    this.#incoming = pipes.incoming;
  }

  get outgoing(): Pipe {
    assert(this.#outgoing !== undefined, "endpoint without pipes");
    return this.#outgoing;
  }

  get incoming(): Pipe {
    assert(this.#incoming !== undefined, "endpoint without pipes");
    return this.#incoming;
  }

  /** Closed here, or its owner is no more. */
  get isClosed(): boolean {
    return this.#isClosed || !this.owner.isAlive;
  }

  start(handlers: ConnectionHandlers<Uint8Array>): void {
    assert(this.#handlers === undefined, "a connection was started twice");
    this.#handlers = handlers;
  }

  send(bytes: Uint8Array, onTaken?: () => void): void {
    if (!this.#isClosing && !this.#isClosed) this.outgoing.send(bytes, onTaken);
  }

  receive(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    assert(this.#handlers !== undefined, "a connection was not started in the turn in which it was handed out");
    this.#handlers.onReceive(bytes);
  }

  drained(): void {
    if (!this.#isClosed) this.#handlers?.onDrain();
  }

  close(reason: string): void {
    if (this.#isClosing || this.#isClosed) return;
    this.#isClosing = true;
    this.outgoing.end(reason);
    this.#network.world.schedule(
      { delayMs: CLOSE_WAIT_MS, kind: "close wait", owner: this.owner, detail: this.remote },
      () => {
        if (!this.#isClosed) this.destroy();
      },
    );
  }

  destroy(): void {
    if (this.#isClosed) return;
    this.#link.abandon(this);
  }

  peerClosed(reason: string): void {
    if (!this.#isClosing) {
      this.#isClosing = true;
      this.outgoing.end(reason);
    }
    this.#closed(reason);
  }

  closedLater(reason: string, delayMs: number): void {
    this.#network.world.schedule(
      { delayMs, kind: "closed", owner: this.owner, detail: `${this.remote}: ${reason}` },
      () => this.#closed(reason),
    );
  }

  #closed(reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#link.endClosed();
    this.#handlers?.onClose(reason);
  }
}

abstract class End {
  protected readonly endpoint: Endpoint;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  get remote(): string {
    return this.endpoint.remote;
  }

  get unsentBytes(): number {
    return this.endpoint.outgoing.unsentBytes;
  }

  start(handlers: ConnectionHandlers<Uint8Array>): void {
    this.endpoint.start(handlers);
  }

  pause(): void {
    this.endpoint.incoming.pause();
  }

  resume(): void {
    this.endpoint.incoming.resume();
  }

  close(reason: string): void {
    this.endpoint.close(reason);
  }

  destroy(): void {
    this.endpoint.destroy();
  }
}

export class MessageEnd extends End implements Connection<readonly Uint8Array[], Uint8Array> {
  send(outgoing: readonly Uint8Array[], onTaken?: () => void): void {
    const last = outgoing.length - 1;
    for (const [index, message] of outgoing.entries())
      this.endpoint.send(message, index === last ? onTaken : undefined);
  }
}

export class ByteEnd extends End implements Connection<Uint8Array, Uint8Array> {
  send(outgoing: Uint8Array): void {
    this.endpoint.send(outgoing);
  }
}
