// All brokers that the client knows: the ones it was told to start with, and the ones that metadata named.
import { OttlaError } from "../model/errors.ts";
import { TransportError } from "../ports/transport.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import { BrokerLink, type LinkContext } from "./broker-link.ts";

const DEFAULT_PORT = 7070;

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

export class BrokerPool {
  readonly #context: LinkContext;
  readonly #bootstrap: readonly string[];
  readonly #links = new Map<string, BrokerLink>();
  #addressOfNode: ReadonlyMap<number, string> = new Map();
  #turn = 0;
  #isClosed = false;
  #wasRefusedByAll = false;

  constructor(bootstrap: readonly string[], context: LinkContext) {
    this.#context = context;
    this.#bootstrap = bootstrap.map(normalAddress);
    this.#turn = context.rng.below(Math.max(1, bootstrap.length));
  }

  /** Takes the list of brokers from metadata. */
  learn(brokers: readonly { readonly nodeId: number; readonly address: string }[]): void {
    if (brokers.length === 0) return;
    this.#addressOfNode = new Map(brokers.map((broker) => [broker.nodeId, normalAddress(broker.address)]));
  }

  /** When `any` failed last, every address had refused the connection. */
  get wasRefusedByAll(): boolean {
    return this.#wasRefusedByAll;
  }

  linkOfNode(nodeId: number): BrokerLink | undefined {
    const address = this.#addressOfNode.get(nodeId);
    return address === undefined ? undefined : this.#link(address);
  }

  /** Any open connection, or else one attempt on each known address in turn. Rejects with CONNECTION_FAILED. */
  async any(): Promise<BrokerConnection> {
    if (this.#isClosed) throw new OttlaError("CLOSED");
    for (const link of this.#links.values()) if (link.current !== undefined) return link.current;
    const addresses = [...new Set([...this.#addressOfNode.values(), ...this.#bootstrap])];
    const failures: OttlaError[] = [];
    for (let count = 0; count < addresses.length; count++) {
      const address = addresses[(this.#turn + count) % addresses.length] as string;
      try {
        return await this.#link(address).get();
      } catch (error) {
        failures.push(error as OttlaError);
      }
    }
    this.#turn++;
    this.#wasRefusedByAll = failures.every(wasRefused);
    const first = failures[0];
    if (this.#isClosed || first?.code === "CLOSED") throw new OttlaError("CLOSED");
    // A peer that answers but speaks something else will not get better by trying again.
    if (first !== undefined && failures.every((failure) => !failure.retriable)) throw first;
    throw new OttlaError("CONNECTION_FAILED", failures.map((failure) => failure.message).join("; "), { cause: first });
  }

  /** Resolves when what was handed over is sent, soon at the latest. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
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
