// A TCP proxy: takes connections for a node, opens one to it for each, and carries the bytes. A fault of the moment strikes all connections, also those to come.
import { once } from "node:events";
import { createServer, createConnection, type AddressInfo, type Server, type Socket } from "node:net";
import type { Rng } from "../../base/rng.ts";
import type { ProxyFault } from "../cluster-types.ts";
import type { ProxyCount } from "./proxy-counts.ts";
import { Lane } from "./proxy-lane.ts";

export interface ProxyParts {
  /** Of the node. */
  readonly host: string;
  readonly port: number;
  readonly rng: Rng;
  readonly count: (what: ProxyCount, by?: number) => void;
}

interface Pair {
  readonly lanes: readonly Lane[];
  readonly close: () => void;
}

export class TcpProxy {
  readonly #parts: ProxyParts;
  readonly #server: Server;
  /** Bound: the connections of the node, which has a bound of its own. */
  readonly #pairs = new Set<Pair>();
  #fault: ProxyFault | undefined;

  constructor(parts: ProxyParts) {
    this.#parts = parts;
    // A side that says that it is done still hears the other one.
    const options = { allowHalfOpen: true, noDelay: true, highWaterMark: 1 << 20 };
    this.#server = createServer(options, (client) => this.#join(client));
  }

  /** The port that it listens on. */
  async listen(host: string, port: number): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  set(fault: ProxyFault | undefined): void {
    this.#fault = fault;
    for (const { lanes } of this.#pairs) for (const lane of lanes) lane.set(fault);
  }

  #join(client: Socket): void {
    const { host, port, count, rng } = this.#parts;
    count("connections");
    const node = createConnection({ host, port, allowHalfOpen: true, noDelay: true });
    const reset = () => {
      client.resetAndDestroy();
      node.resetAndDestroy();
    };
    const lanes = [
      new Lane({ from: client, to: node, isToNode: true, rng, count, reset }),
      new Lane({ from: node, to: client, isToNode: false, rng, count, reset }),
    ];
    const pair: Pair = { lanes, close: reset };
    this.#pairs.add(pair);
    for (const lane of lanes) lane.set(this.#fault);
    const part = (other: Socket) => (hadError: boolean) => {
      if (hadError) other.resetAndDestroy();
      else if (!other.writableEnded) other.end();
      if (!client.destroyed || !node.destroyed) return;
      this.#pairs.delete(pair);
      for (const lane of lanes) lane.close();
    };
    client.on("error", () => undefined).on("close", part(node));
    node.on("error", () => undefined).on("close", part(client));
  }

  async close(): Promise<void> {
    this.#server.close();
    for (const { close } of this.#pairs) close();
    await once(this.#server, "close");
  }
}
