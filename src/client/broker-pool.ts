// All brokers that the client knows: the ones it was told to start with, and the ones that metadata named; and which is the controller.
import { OttlaError } from "../model/errors.ts";
import { TransportError } from "../ports/transport.ts";
import type { MetadataResponse } from "../wire/native/apis.ts";
import type { Alarm } from "../link/alarms.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import { BrokerLink, type LinkContext } from "./broker-link.ts";

const DEFAULT_PORT = 7070;
/** A broker that has not answered by then may hang: the next one is tried beside it. */
const STAGGER_MS = 300;
/** How long a broker that failed a call comes after all others. */
const SHUN_MS = 2_000;
/** How long a new connection is waited for while there is an open one, although to a shunned broker. */
const INSTEAD_OF_SHUNNED_MS = 500;
/** `controllerId` when nobody has named one. */
const NO_CONTROLLER = -1;

/** host:port of what people write. */
export function normalAddress(text: string): string {
  const address = text
    .trim()
    .replace(/^ws:\/\//, "")
    .replace(/\/$/, "");
  return /:\d+$/.test(address) ? address : `${address}:${DEFAULT_PORT}`;
}

/** Nothing listens on the address. */
function wasRefused(error: OttlaError): boolean {
  return error.cause instanceof TransportError && error.cause.kind === "refused";
}

type ClusterPart = Pick<MetadataResponse, "clusterId" | "controllerId" | "brokers" | "metadataEnd">;

export class BrokerPool {
  readonly #context: LinkContext;
  readonly #bootstrap: readonly string[];
  readonly #links = new Map<string, BrokerLink>();
  readonly #shunnedUntilMs = new Map<BrokerLink, number>();
  #addressOfNode: ReadonlyMap<number, string> = new Map();
  #fenced: ReadonlySet<string> = new Set();
  #clusterId: string | undefined;
  #metadataEnd = -1;
  #controllerId = NO_CONTROLLER;
  /** Who said so; undefined: the controller itself. */
  #namedBy: BrokerConnection | undefined;
  #turn = 0;
  #isClosed = false;
  #wasRefusedByAll = false;

  constructor(bootstrap: readonly string[], context: LinkContext) {
    this.#context = context;
    this.#bootstrap = bootstrap.map(normalAddress);
    this.#turn = context.rng.below(Math.max(1, bootstrap.length));
  }

  /**
   * Takes the brokers and the controller from metadata. What is older than something seen before changes nothing: brokers learn of changes
   * one after another. An answer of another cluster (its disks were wiped) is always news.
   */
  learn(answer: ClusterPart, from?: BrokerConnection): void {
    if (answer.brokers.length === 0) return;
    // Who is the controller does not stand in the log: of that even an old answer may know more than nothing.
    if (this.#controllerId === NO_CONTROLLER) this.#takeController(answer.controllerId, from);
    if (this.isOld(answer)) return;
    this.#metadataEnd =
      answer.clusterId === this.#clusterId ? Math.max(this.#metadataEnd, answer.metadataEnd) : answer.metadataEnd;
    this.#clusterId = answer.clusterId;
    this.#takeController(answer.controllerId, from);
    const addresses = answer.brokers.map((broker) => [broker.nodeId, normalAddress(broker.address)] as const);
    this.#addressOfNode = new Map(addresses);
    this.#fenced = new Set(
      answer.brokers.flatMap(({ address, isFenced }) => (isFenced ? [normalAddress(address)] : [])),
    );
  }

  /** Something newer is known; of a broker that does not say how old its answer is nothing counts as old. */
  isOld({ clusterId, metadataEnd }: Pick<ClusterPart, "clusterId" | "metadataEnd">): boolean {
    return clusterId === this.#clusterId && metadataEnd >= 0 && metadataEnd < this.#metadataEnd;
  }

  /** A change was made below this end: older answers do not have it. */
  expect(metadataEnd: number): void {
    this.#metadataEnd = Math.max(this.#metadataEnd, metadataEnd);
  }

  /** When `any` failed last, every address had refused the connection. */
  get wasRefusedByAll(): boolean {
    return this.#wasRefusedByAll;
  }

  /** Of the brokers that metadata named. */
  get nodeIds(): readonly number[] {
    return [...this.#addressOfNode.keys()];
  }

  /** undefined: no broker has told of one yet. */
  get clusterId(): string | undefined {
    return this.#clusterId;
  }

  linkOfNode(nodeId: number): BrokerLink | undefined {
    const address = this.#addressOfNode.get(nodeId);
    return address === undefined ? undefined : this.#link(address);
  }

  /** Where changes of the cluster go, as far as is known. */
  get controller(): BrokerLink | undefined {
    return this.linkOfNode(this.#controllerId);
  }

  #takeController(nodeId: number, from: BrokerConnection | undefined): void {
    this.#controllerId = nodeId;
    this.#namedBy = from;
  }

  /** The controller did not answer as one. Whoever named it is asked again only after others: it may be cut off from them. */
  forgetController(): void {
    if (this.#namedBy !== undefined) this.shun(this.#namedBy);
    this.#takeController(NO_CONTROLLER, undefined);
    this.#turn++;
  }

  /** The broker failed a call: others come first for a while. */
  shun(connection: BrokerConnection): void {
    for (const link of this.#links.values()) {
      if (link.current === connection) this.shunLink(link);
    }
  }

  shunLink(link: BrokerLink): void {
    this.#shunnedUntilMs.set(link, this.#context.alarms.nowMs() + SHUN_MS);
  }

  /** An open connection, or else the first that can be made. Rejects with CONNECTION_FAILED. */
  async any(): Promise<BrokerConnection> {
    if (this.#isClosed) throw new OttlaError("CLOSED");
    const links = this.#inTurn();
    const open = links.filter((link) => link.current !== undefined);
    const best = open.find((link) => !this.#isShunned(link));
    if (best?.current !== undefined) return best.current;
    const closed = links.filter((link) => link.current === undefined);
    // All are shunned: whoever has been for the longest time may be well again.
    const [oldest] = open.toSorted((left, right) => this.#shunnedUntil(left) - this.#shunnedUntil(right));
    const shunned = oldest?.current;
    if (shunned === undefined) return await this.#firstOf(closed);
    if (closed.length === 0) return shunned;
    const instead = () => new OttlaError("CONNECTION_FAILED");
    const { alarms } = this.#context;
    return await alarms.within(this.#firstOf(closed), INSTEAD_OF_SHUNNED_MS, instead).catch(() => shunned);
  }

  /** Resolves when what was handed over is sent, soon at the latest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  /** Every known broker once, beginning with the one whose turn it is; fenced ones, which are likely to be away, last. */
  #inTurn(): BrokerLink[] {
    const known = [...this.#addressOfNode.values(), ...this.#bootstrap];
    const addresses = [...new Set([...known.filter((address) => !this.#fenced.has(address))])];
    const start = this.#turn % Math.max(1, addresses.length);
    const rotated = [...addresses.slice(start), ...addresses.slice(0, start), ...this.#fenced];
    const links = new Set(rotated.map((address) => this.#link(address)));
    // An open connection to an address that nobody names any more is better than none.
    for (const link of this.#links.values()) if (link.current !== undefined) links.add(link);
    return [...links];
  }

  #isShunned(link: BrokerLink): boolean {
    return this.#shunnedUntil(link) > this.#context.alarms.nowMs();
  }

  #shunnedUntil(link: BrokerLink): number {
    return this.#shunnedUntilMs.get(link) ?? Number.NEGATIVE_INFINITY;
  }

  /** One attempt on each, the next one begun when the one before failed or lets wait for itself. */
  async #firstOf(links: readonly BrokerLink[]): Promise<BrokerConnection> {
    try {
      return await this.#race(links);
    } catch (thrown) {
      const failures = thrown instanceof AggregateError ? (thrown.errors as OttlaError[]) : [];
      this.#turn++;
      this.#wasRefusedByAll = failures.every(wasRefused);
      const [first] = failures;
      if (this.#isClosed || first?.code === "CLOSED") throw new OttlaError("CLOSED", undefined, { cause: thrown });
      // A peer that answers but speaks something else will not get better by trying again.
      if (first !== undefined && failures.every((failure) => !failure.retriable)) throw first;
      const message = failures.map((failure) => failure.message).join("; ");
      throw new OttlaError("CONNECTION_FAILED", message, { cause: first });
    }
  }

  #race(links: readonly BrokerLink[]): Promise<BrokerConnection> {
    return new Promise((resolve, reject) => {
      const failures: OttlaError[] = [];
      let startedCount = 0;
      let alarm: Alarm | undefined;
      const startNext = () => {
        alarm?.cancel();
        const link = links[startedCount];
        if (link === undefined) return;
        startedCount++;
        if (startedCount < links.length) alarm = this.#context.alarms.after(STAGGER_MS, startNext);
        link.get().then(
          (connection) => {
            alarm?.cancel();
            startedCount = links.length;
            resolve(connection);
          },
          (error: unknown) => {
            failures.push(error as OttlaError);
            if (failures.length === links.length) reject(new AggregateError(failures));
            else startNext();
          },
        );
      };
      startNext();
    });
  }

  #link(address: string): BrokerLink {
    let link = this.#links.get(address);
    if (link === undefined) {
      link = new BrokerLink(address, this.#context);
      this.#links.set(address, link);
      if (this.#isClosed) void link.close();
    }
    return link;
  }
}
