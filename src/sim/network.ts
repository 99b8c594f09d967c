// The simulated network: both transport ports (D-27) over pipes that delay, and connections that break where the seed says.
import type { Rng } from "../base/rng.ts";
import {
  type ByteTransport,
  type Connection,
  type Listener,
  type MessageTransport,
  type Transport,
  TransportError,
} from "../ports/transport.ts";
import { ByteEnd, type Carried, type Cut, type Endpoint, Link, MessageEnd, SILENT_TIMEOUT_MS } from "./connection.ts";
import { Path } from "./path.ts";
import type { LinkQuality } from "./pipe.ts";
import type { Incarnation, SimWorld } from "./world.ts";

export interface NetworkOptions {
  readonly link: LinkQuality;
}

interface ListenerState {
  readonly owner: Incarnation;
  readonly carried: Carried;
  readonly accept: (endpoint: Endpoint) => void;
}

const PINGS_MAX = 3;
/** A handshake that is not answered is given up after this long, as the real transport does. */
const HANDSHAKE_MS = 5_000;
const HANDSHAKE_RETRY_MS = 250;
/** N3: longest that bytes of a connection arrive late. */
const LATE_MS_MAX = 60_000;
const FIRST_PORT = 20_000;

export function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(":"));
}

export class SimNetwork {
  readonly world: SimWorld;
  readonly rng: Rng;
  readonly #listeners = new Map<string, ListenerState>();
  readonly #links = new Set<Link>();
  readonly #paths = new Map<string, Path>();
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

  /** Of every path without a quality of its own. Applies to what is sent from now on. */
  setLink(link: LinkQuality): void {
    this.#link = link;
  }

  path(from: string, to: string): Path {
    const name = `${from} ${to}`;
    let path = this.#paths.get(name);
    if (path === undefined) {
      path = new Path(from, to, () => this.#link);
      this.#paths.set(name, path);
    }
    return path;
  }

  /** N4: nothing gets from one to the other until it is mended as often as it was cut; connections last, up to a point. */
  cut(from: string, to: string): void {
    const path = this.path(from, to);
    const wasCut = path.isCut;
    path.cut();
    if (!wasCut) this.#giveUpOn(path);
  }

  mend(from: string, to: string): void {
    this.path(from, to).mend();
  }

  #giveUpOn(path: Path): void {
    const { cuts } = path;
    const delayMs = SILENT_TIMEOUT_MS * (1 + (this.rng.u32() / 2 ** 32) * (PINGS_MAX - 1));
    this.world.schedule({ delayMs, kind: "give up", detail: `${path.from} to ${path.to}` }, () => {
      if (!path.isCut || path.cuts !== cuts) return;
      for (const link of [...this.#links]) if (link.uses(path)) link.break("silent", 0);
    });
  }

  /** N3: what is under way in one direction of one random connection, and what follows, arrives up to a minute late. */
  delayOne(): boolean {
    const open = [...this.#links].filter((link) => !link.isBroken);
    if (open.length === 0) return false;
    this.rng.pick(open).stallOne(lateMs(this.rng));
    return true;
  }

  /** Peers of a machine that stands still for longer than pings may go unanswered give its connections up. */
  paused(machine: string, durationMs: number): void {
    const delayMs = SILENT_TIMEOUT_MS * (1 + this.rng.below(PINGS_MAX - 1));
    if (durationMs < delayMs) return;
    this.world.schedule({ delayMs, kind: "give up", detail: machine }, () => {
      if (!this.world.machine(machine).isPaused) return;
      for (const link of [...this.#links]) if (link.isOf(machine)) link.break("silent", 0);
    });
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

  /** Paths are open and fast, nothing is late, every silently broken connection is reset: the network is whole again. */
  heal(): void {
    for (const path of this.#paths.values()) path.heal();
    for (const link of this.#links) {
      link.hurry();
      if (link.isBroken) link.resetEnds("healed");
    }
  }

  /** The process of an incarnation is gone: its peers hear a reset, or nothing, or first what it still sent. */
  forget(owner: Incarnation, { isPowerLoss = false }: { readonly isPowerLoss?: boolean } = {}): void {
    for (const [address, listener] of this.#listeners) if (listener.owner === owner) this.#listeners.delete(address);
    for (const link of [...this.#links]) {
      const end = link.endOf(owner);
      if (end === undefined) continue;
      const fate = isPowerLoss ? 9 : this.rng.below(10);
      if (fate < 4) link.abandon(end);
      else if (fate < 7) link.outlive(end, this.rng.chance(0.5) ? 0 : lateMs(this.rng));
      else link.break("silent");
    }
  }

  /** A machine that was off answers again: what comes on connections of before is refused. */
  booted(machine: string): void {
    for (const link of this.#links) if (link.isBroken && link.isOf(machine)) link.resetEnds("connection reset");
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
    const there = this.path(owner.node, hostOf(address));
    const back = this.path(hostOf(address), owner.node);
    const machine = this.world.machine(hostOf(address));
    const deadlineMs = this.world.nowMs + HANDSHAKE_MS;
    const delayMs = there.quality.delayMs + back.quality.delayMs;
    await this.world.later({ delayMs, kind: "connect", owner, detail: address }, () => undefined);
    while (there.isCut || back.isCut || machine.isPaused || machine.isOff) {
      if (this.world.nowMs > deadlineMs)
        throw new TransportError(machine.isOff && this.rng.chance(0.5) ? "unreachable" : "timed-out", address);
      await this.world.later({ delayMs: HANDSHAKE_RETRY_MS, kind: "connect", owner, detail: address }, () => undefined);
    }
    return this.#open(owner, address, carried);
  }

  #open(owner: Incarnation, address: string, carried: Carried): Endpoint {
    const listener = this.#listeners.get(address);
    if (listener?.owner.isAlive !== true) throw new TransportError("refused", address);
    if (listener.carried !== carried) throw new TransportError("not-ottla", address);
    const link = new Link(this, { client: owner, server: listener.owner, address, carried });
    this.#links.add(link);
    this.world.schedule({ delayMs: 0, kind: "accept", owner: listener.owner, detail: address }, () => {
      if (!link.isSevered) listener.accept(link.serverEnd);
    });
    return link.clientEnd;
  }

  remove(link: Link): void {
    this.#links.delete(link);
  }
}

/** Mostly short, now and then a minute: long enough for a new leader, a new session, a new process. */
function lateMs(rng: Rng): number {
  return 50 * (LATE_MS_MAX / 50) ** (rng.u32() / 2 ** 32);
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
