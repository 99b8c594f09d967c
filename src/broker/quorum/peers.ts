// This broker's connections to the others, one for each peer that is dialled: one set for control (Raft, registration, heartbeats, metadata), another
// one for bulk (what replicas fetch), so that no heartbeat ever waits behind a megabyte (D-24).
import type { Rng } from "../../base/rng.ts";
import { Alarms } from "../../link/alarms.ts";
import { BrokerConnection } from "../../link/broker-connection.ts";
import { OttlaError } from "../../model/errors.ts";
import type { ClusterId, NodeId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type { Timers } from "../../ports/timers.ts";
import type { MessageTransport } from "../../ports/transport.ts";
import type { ApiKey, ApiTypes, HelloResponse } from "../../wire/native/apis.ts";
import { nodeName } from "../node-name.ts";
import { type AttemptOutcome, PeerLink, type PeerLinkContext } from "./peer-link.ts";

export interface PeerLinksParts {
  readonly transport: MessageTransport;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly rng: Rng;
  readonly logger: Logger;
  readonly software: string;
  readonly self: NodeId;
  addressesOf(nodeId: NodeId): readonly string[];
  clusterId(): ClusterId | null;
}

export interface PeerWatcher {
  onConnected?(nodeId: NodeId): void;
  onLost?(nodeId: NodeId): void;
  /** Nobody listens at this address of the peer (D-22). */
  onRefused?(nodeId: NodeId, address: string): void;
}

export interface Answer<K extends ApiKey> {
  readonly response: ApiTypes[K]["response"];
  readonly bodies: readonly Uint8Array[];
}

/** Bound: peers dialled; the least needed are dropped first. With this node itself they are as many as an answer can list. */
const PEERS_MAX = 1_023;

export class PeerLinks {
  readonly #context: PeerLinkContext;
  readonly #alarms: Alarms;
  readonly #links = new Map<NodeId, PeerLink>();
  /** Who wants which peers to be connected all the time. */
  readonly #wishes = new Map<string, ReadonlySet<NodeId>>();
  readonly #watchers = new Set<PeerWatcher>();
  #isClosed = false;

  constructor(parts: PeerLinksParts) {
    this.#alarms = new Alarms(parts);
    this.#context = {
      ...parts,
      alarms: this.#alarms,
      addressesOf: (id) => parts.addressesOf(id),
      clusterId: () => parts.clusterId(),
    };
  }

  get connected(): NodeId[] {
    return [...this.#links.values()].filter((link) => link.current !== undefined).map(({ nodeId }) => nodeId);
  }

  isConnected(nodeId: NodeId): boolean {
    return this.#links.get(nodeId)?.current !== undefined;
  }

  /** For requests with many answers. Whoever uses it watches for its end. */
  connectionTo(nodeId: NodeId): BrokerConnection | undefined {
    return this.#links.get(nodeId)?.used();
  }

  /** Why a peer is not connected, for people. */
  faultOf(nodeId: NodeId): string | undefined {
    return this.#links.get(nodeId)?.lastFault;
  }

  /** Nodes that are looked for and found to belong to another cluster. */
  get strangers(): NodeId[] {
    const links = [...this.#links.values()];
    return links
      .filter(({ current, strangeCluster }) => current === undefined && strangeCluster !== undefined)
      .map(({ nodeId }) => nodeId);
  }

  watch(watcher: PeerWatcher): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Keeps these peers connected, in place of those that `owner` named before. */
  want(owner: string, nodes: Iterable<NodeId>): void {
    if (this.#isClosed) return;
    const wanted = new Set(nodes);
    wanted.delete(this.#context.self);
    this.#wishes.set(owner, wanted);
    const all = new Set([...this.#wishes.values()].flatMap((wish) => [...wish]));
    for (const nodeId of all) this.#linkTo(nodeId);
    for (const [nodeId, link] of this.#links) link.isWanted = all.has(nodeId);
  }

  /** A one-way message; false when it was dropped: not connected, or too much is on its way already. */
  tell<K extends ApiKey>(
    nodeId: NodeId,
    api: K,
    message: { readonly request: ApiTypes[K]["request"]; readonly bodies: readonly Uint8Array[] },
  ): boolean {
    const connection = this.#links.get(nodeId)?.used();
    if (connection === undefined || connection.isCongested) return false;
    return connection.tell(api, message.request, message.bodies) === undefined;
  }

  /** Rejects with an OttlaError: CONNECTION_FAILED, CONNECTION_LOST, REQUEST_TIMED_OUT, or what the peer answered. */
  async call<K extends ApiKey>(
    nodeId: NodeId,
    api: K,
    request: ApiTypes[K]["request"],
    { timeoutMs }: { readonly timeoutMs: number },
  ): Promise<ApiTypes[K]["response"]> {
    return (await this.ask(nodeId, api, request, { timeoutMs })).response;
  }

  /** As call, with the bodies of the answer. */
  async ask<K extends ApiKey>(
    nodeId: NodeId,
    api: K,
    request: ApiTypes[K]["request"],
    { timeoutMs }: { readonly timeoutMs: number },
  ): Promise<Answer<K>> {
    if (this.#isClosed) throw new OttlaError("CLOSED", "the broker is stopping");
    const untilMs = this.#alarms.nowMs() + timeoutMs;
    const connection = await this.#linkTo(nodeId).connected(timeoutMs);
    const leftMs = Math.max(1, untilMs - this.#alarms.nowMs());
    return new Promise((resolve, reject) => {
      connection.request(
        api,
        { request, bodies: [], timeoutMs: leftMs },
        { onAnswer: (response, bodies) => resolve({ response, bodies }), onFailure: reject },
      );
    });
  }

  /** Connects now, without waiting for a back-off. "failed" says nothing about the peer. */
  probe(nodeId: NodeId): Promise<AttemptOutcome> {
    return this.#isClosed ? Promise.resolve("failed") : this.#linkTo(nodeId).tryNow();
  }

  /** Who answers at this address, on a connection for this question only. undefined: nobody within the time. */
  async whoIsAt(address: string, timeoutMs: number): Promise<HelloResponse | undefined> {
    if (this.#isClosed) return undefined;
    const { transport, software, self } = this.#context;
    const late = () => new OttlaError("CONNECTION_FAILED", `${address} does not answer`);
    let connection: BrokerConnection | undefined;
    const asking = (async () => {
      const opened = await transport.connect(address);
      const events = { onClosed: () => undefined, onDrain: () => undefined };
      connection = new BrokerConnection(opened, { alarms: this.#alarms, events });
      return connection.hello(nodeName(self), timeoutMs, software);
    })();
    // One that comes too late is closed all the same.
    const ended = () => void connection?.close(new OttlaError("CLOSED", "answered"));
    asking.then(ended, ended);
    return await this.#alarms.within(asking, timeoutMs, late).catch(() => undefined);
  }

  /** The peer gave a sign of life: whoever waits to dial it again need not. */
  nudge(nodeId: NodeId): void {
    this.#links.get(nodeId)?.nudge();
  }

  /** The connection is known to be dead: another one, now. */
  renew(nodeId: NodeId): void {
    this.#links.get(nodeId)?.renew();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
    this.#alarms.close();
  }

  #linkTo(nodeId: NodeId): PeerLink {
    const known = this.#links.get(nodeId);
    if (known !== undefined) return known;
    if (this.#links.size >= PEERS_MAX) this.#dropOne();
    const link = new PeerLink(nodeId, this.#context, {
      onConnected: () => this.#tell((watcher) => watcher.onConnected?.(nodeId)),
      onLost: () => this.#tell((watcher) => watcher.onLost?.(nodeId)),
      onRefused: (address) => this.#tell((watcher) => watcher.onRefused?.(nodeId, address)),
    });
    this.#links.set(nodeId, link);
    return link;
  }

  #dropOne(): void {
    const wanted = new Set([...this.#wishes.values()].flatMap((wish) => [...wish]));
    const victim = [...this.#links.values()].find(({ nodeId }) => !wanted.has(nodeId));
    if (victim === undefined) return;
    this.#links.delete(victim.nodeId);
    void victim.close();
  }

  #tell(act: (watcher: PeerWatcher) => void): void {
    for (const watcher of [...this.#watchers]) act(watcher);
  }
}
