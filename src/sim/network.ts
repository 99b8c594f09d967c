// The simulated network: both transport ports (D-27) over pipes that delay, and connections that break where the seed says.
import { assert } from "../base/assert.ts";
import type { Rng } from "../base/rng.ts";
import {
  type ByteTransport,
  type Connection,
  type ConnectionHandlers,
  type Listener,
  type MessageTransport,
  type Transport,
  TransportError,
} from "../ports/transport.ts";
import { type LinkQuality, Pipe } from "./pipe.ts";
import type { Incarnation, SimWorld } from "./world.ts";

export interface NetworkOptions {
  readonly link: LinkQuality;
}

type Carried = "messages" | "bytes";

interface ListenerState {
  readonly owner: Incarnation;
  readonly carried: Carried;
  readonly accept: (endpoint: Endpoint) => void;
}

/** How long a close waits for the peer's. */
const CLOSE_WAIT_MS = 1000;
/** A half-open connection on which something waits to be sent is given up by its end after about this long. */
const SILENT_TIMEOUT_MS = 20_000;
const FIRST_PORT = 20_000;

/** Which ends of a connection hear that it broke. */
export type Cut = "both" | "one" | "silent";

export class SimNetwork {
  readonly world: SimWorld;
  readonly rng: Rng;
  readonly #listeners = new Map<string, ListenerState>();
  readonly #links = new Set<Link>();
  #link: LinkQuality;
  #nextPort = FIRST_PORT;

  constructor(world: SimWorld, options: NetworkOptions) {
    this.world = world;
    this.rng = world.fork("network");
    this.#link = options.link;
  }

  get link(): LinkQuality {
    return this.#link;
  }

  /** Applies to what is sent from now on. */
  setLink(link: LinkQuality): void {
    this.#link = link;
  }

  get connectionCount(): number {
    return this.#links.size;
  }

  messages(owner: Incarnation): MessageTransport {
    return new SimTransport<readonly Uint8Array[], Uint8Array>(
      this,
      owner,
      "messages",
      (endpoint) => new MessageEnd(endpoint),
    );
  }

  bytes(owner: Incarnation): ByteTransport {
    return new SimTransport<Uint8Array, Uint8Array>(this, owner, "bytes", (endpoint) => new ByteEnd(endpoint));
  }

  /** Breaks one random open connection; false when there is none. */
  cutOne(cut: Cut): boolean {
    const open = [...this.#links].filter((link) => !link.isBroken);
    if (open.length === 0) return false;
    this.rng.pick(open).break(cut);
    return true;
  }

  /** Every silently broken connection is reset: the network is whole again. */
  heal(): void {
    for (const link of this.#links) if (link.isBroken) link.resetEnds("healed");
  }

  /** The machine or process of an incarnation is gone: its peers hear a reset, or nothing (a coin each). */
  forget(owner: Incarnation): void {
    for (const [address, listener] of this.#listeners) if (listener.owner === owner) this.#listeners.delete(address);
    for (const link of [...this.#links]) if (link.touches(owner)) link.break(this.rng.chance(0.7) ? "both" : "silent");
  }

  async listen(owner: Incarnation, address: string, state: Omit<ListenerState, "owner">): Promise<Listener> {
    const [host, port] = address.split(":");
    const bound = port === "0" ? `${host}:${this.#nextPort++}` : address;
    await this.world.later({ delayMs: 0.01, kind: "listen", owner, detail: bound }, () => {
      if (this.#listeners.get(bound)?.owner.isAlive === true) throw new TransportError("address-in-use", bound);
      this.#listeners.set(bound, { ...state, owner });
    });
    return {
      address: bound,
      close: async () => {
        if (this.#listeners.get(bound)?.owner === owner) this.#listeners.delete(bound);
      },
    };
  }

  async connect(owner: Incarnation, address: string, carried: Carried): Promise<Endpoint> {
    const delayMs = this.#link.delayMs * 2;
    return this.world.later({ delayMs, kind: "connect", owner, detail: address }, () => {
      const listener = this.#listeners.get(address);
      if (listener?.owner.isAlive !== true) throw new TransportError("refused", address);
      if (listener.carried !== carried) throw new TransportError("not-ottla", address);
      const link = new Link(this, { client: owner, server: listener.owner, address, carried });
      this.#links.add(link);
      this.world.schedule({ delayMs: 0, kind: "accept", owner: listener.owner, detail: address }, () => {
        if (!link.isBroken) listener.accept(link.serverEnd);
      });
      return link.clientEnd;
    });
  }

  remove(link: Link): void {
    this.#links.delete(link);
  }
}

/** Both ends of one connection. */
class Link {
  readonly clientEnd: Endpoint;
  readonly serverEnd: Endpoint;
  readonly #network: SimNetwork;
  readonly #parties: readonly Incarnation[];
  #isBroken = false;

  constructor(
    network: SimNetwork,
    options: { client: Incarnation; server: Incarnation; address: string; carried: Carried },
  ) {
    const { client, server, address, carried } = options;
    this.#network = network;
    this.#parties = [client, server];
    this.clientEnd = new Endpoint(this, { network, owner: client, remote: address });
    this.serverEnd = new Endpoint(this, { network, owner: server, remote: client.node });
    const pipe = (from: Endpoint, to: Endpoint): Pipe =>
      new Pipe(network.world, {
        rng: network.rng,
        ends: { sender: from.owner, receiver: to.owner, label: `${from.owner.node} to ${to.owner.node}` },
        quality: () => network.link,
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

  touches(owner: Incarnation): boolean {
    return this.#parties.includes(owner);
  }

  break(cut: Cut): void {
    this.#isBroken = true;
    this.clientEnd.outgoing.cut();
    this.clientEnd.incoming.cut();
    switch (cut) {
      case "both":
        this.resetEnds("connection reset");
        return;
      case "one": {
        const [first, second] = this.#network.rng.chance(0.5)
          ? [this.clientEnd, this.serverEnd]
          : [this.serverEnd, this.clientEnd];
        first.closedLater("connection reset", this.#network.link.delayMs);
        second.closedLater("connection timed out", SILENT_TIMEOUT_MS);
        return;
      }
      case "silent":
        this.clientEnd.closedLater("connection timed out", SILENT_TIMEOUT_MS);
        this.serverEnd.closedLater("connection timed out", SILENT_TIMEOUT_MS);
        return;
    }
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
class Endpoint {
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

  send(bytes: Uint8Array): void {
    if (!this.#isClosing && !this.#isClosed) this.outgoing.send(bytes);
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
    this.#link.break("both");
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

class MessageEnd extends End implements Connection<readonly Uint8Array[], Uint8Array> {
  send(outgoing: readonly Uint8Array[]): void {
    for (const message of outgoing) this.endpoint.send(message);
  }
}

class ByteEnd extends End implements Connection<Uint8Array, Uint8Array> {
  send(outgoing: Uint8Array): void {
    this.endpoint.send(outgoing);
  }
}

class SimTransport<Outgoing, Received> implements Transport<Connection<Outgoing, Received>> {
  readonly #network: SimNetwork;
  readonly #owner: Incarnation;
  readonly #carried: Carried;
  readonly #wrap: (endpoint: Endpoint) => Connection<Outgoing, Received>;

  constructor(
    network: SimNetwork,
    owner: Incarnation,
    carried: Carried,
    wrap: (endpoint: Endpoint) => Connection<Outgoing, Received>,
  ) {
    this.#network = network;
    this.#owner = owner;
    this.#carried = carried;
    this.#wrap = wrap;
  }

  listen(address: string, onConnection: (connection: Connection<Outgoing, Received>) => void): Promise<Listener> {
    const accept = (endpoint: Endpoint): void => onConnection(this.#wrap(endpoint));
    return this.#network.listen(this.#owner, address, { carried: this.#carried, accept });
  }

  async connect(address: string): Promise<Connection<Outgoing, Received>> {
    return this.#wrap(await this.#network.connect(this.#owner, address, this.#carried));
  }
}
