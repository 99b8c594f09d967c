// Control connections: kept, made again, refused, answered by a stranger, found at another address.
import { describe, expect, it } from "vitest";
import { createSimHost } from "../../../scripts/sim-host.ts";
import { PeerLinks } from "../../../src/broker/quorum/peers.ts";
import { type ClusterId, type NodeId, uuidFromBytes } from "../../../src/model/ids.ts";
import { type MessageConnection, TransportError } from "../../../src/ports/transport.ts";
import { SimNetwork } from "../../../src/sim/network.ts";
import { createSimLogger } from "../../../src/sim/sim-ports.ts";
import { createSimClock, createSimTimers, type Incarnation, SimWorld } from "../../../src/sim/world.ts";
import { API, type ApiTypes } from "../../../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../../../src/wire/native/codec.ts";
import { idOf, nodeId } from "./support.ts";

const host = await createSimHost();
const CLUSTER = idOf(77);
const NO_CLUSTER = uuidFromBytes(new Uint8Array(16));

interface Peer {
  readonly incarnation: Incarnation;
  readonly connections: MessageConnection[];
  requests: number;
  /** Connections that have ended. */
  ended: number;
}

class Net {
  readonly world = new SimWorld({ seed: 1, host });
  readonly network = new SimNetwork(this.world, { link: { delayMs: 0.2, bandwidth: 1_000_000, windowBytes: 65_536 } });
  readonly self = this.world.startIncarnation("self");
  addresses = new Map<number, readonly string[]>([[2, ["peer:2"]]]);
  readonly events: string[] = [];
  readonly links: PeerLinks;
  /** Whoever is dialled has as many connections as it takes. */
  isFull = false;

  constructor() {
    const transport = this.network.messages(this.self);
    const connect = (address: string) =>
      this.isFull ? Promise.reject(new TransportError("busy", address)) : transport.connect(address);
    this.links = new PeerLinks({
      transport: { listen: (...args) => transport.listen(...args), connect },
      clock: createSimClock(this.world, this.self),
      timers: createSimTimers(this.world, this.self),
      rng: this.world.fork("links"),
      logger: createSimLogger(this.world, "self"),
      software: "test",
      self: nodeId(1),
      addressesOf: (id) => this.addresses.get(id) ?? [],
      clusterId: () => CLUSTER,
    });
    this.links.watch({
      onConnected: (id) => void this.events.push(`connected ${id}`),
      onLost: (id) => void this.events.push(`lost ${id}`),
      onRefused: (id, address) => void this.events.push(`refused ${id} at ${address}`),
    });
  }

  /** A node that answers Hello (if it is not mute), and every question with what it is. */
  async listen(address: string, who: { nodeId?: NodeId; clusterId?: ClusterId; isMute?: boolean } = {}): Promise<Peer> {
    const incarnation = this.world.startIncarnation(address);
    const peer: Peer = { incarnation, connections: [], requests: 0, ended: 0 };
    const hello: ApiTypes[1]["response"] = {
      clusterId: who.clusterId ?? CLUSTER,
      nodeId: who.nodeId ?? nodeId(2),
      brokerEpoch: -1,
      software: "test",
      apis: SUPPORTED_VERSIONS,
      messageBytesMax: 1_000_000,
      inFlightBytesMax: 1_000_000,
    };
    const accept = (connection: MessageConnection): void => {
      const assembler = new RequestAssembler({ bodyBytesMax: 1_000_000 });
      peer.connections.push(connection);
      connection.start({
        onReceive: (bytes) => {
          const assembled = assembler.push(bytes);
          if (assembled.kind !== "message" || who.isMute === true) return;
          const { header } = assembled.message;
          if (header.api !== API.HELLO) peer.requests++;
          const answer = { ...header, more: false, error: "NONE", message: null } as const;
          if (header.api === API.HELLO) connection.send(encodeResponse({ ...answer, api: API.HELLO }, hello, []));
          else if (header.api === API.ADOPT) connection.send(encodeResponse({ ...answer, api: API.ADOPT }, {}, []));
        },
        onClose: () => void peer.ended++,
        onDrain: () => undefined,
      });
    };
    await this.world.settle(this.network.messages(incarnation).listen(address, accept));
    return peer;
  }

  adopt(timeoutMs = 1_000): Promise<unknown> {
    return this.links.call(nodeId(2), API.ADOPT, { clusterId: CLUSTER, voters: [] }, { timeoutMs });
  }

  kill(peer: Peer): void {
    peer.incarnation.end();
    this.network.forget(peer.incarnation);
    for (const connection of peer.connections) connection.destroy();
  }

  count(prefix: string): number {
    return this.events.filter((event) => event.startsWith(prefix)).length;
  }
}

describe("a peer that is wanted", () => {
  it("is connected to, again and again, with refusals told; the back-off is at most a second", async () => {
    const net = new Net();
    net.links.want("test", [nodeId(2), nodeId(1)]);
    await net.world.runFor(10_000);
    const tries = net.count("refused 2");
    expect(tries).toBeGreaterThan(9);
    expect(tries).toBeLessThan(30);
    const peer = await net.listen("peer:2");
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), net.world.nowMs + 1_100);
    expect(net.links.connected).toEqual([2]);
    await net.world.runFor(200);
    const before = net.count("refused 2");
    net.kill(peer);
    await net.world.runUntil(() => net.count("refused 2") > before, net.world.nowMs + 100);
    expect(net.events.slice(-3)).toEqual(["connected 2", "lost 2", "refused 2 at peer:2"]);
  });

  it("D-22: is not told of as gone when it takes no more connections", async () => {
    const net = new Net();
    await net.listen("peer:2");
    net.isFull = true;
    net.links.want("test", [nodeId(2)]);
    await net.world.runFor(5_000);
    expect(net.events).toEqual([]);
    expect(net.links.faultOf(nodeId(2))).toBe("peer:2: busy");
    net.isFull = false;
    await net.world.runFor(1_100);
    expect(net.events).toEqual(["connected 2"]);
  });

  it("is dialled at once after a sign of life", async () => {
    const net = new Net();
    net.links.want("test", [nodeId(2)]);
    await net.world.runFor(10_000);
    await net.listen("peer:2");
    const beganMs = net.world.nowMs;
    net.links.nudge(nodeId(2));
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), beganMs + 1_000);
    expect(net.world.nowMs - beganMs).toBeLessThan(20);
  });

  it("is looked for at each of its addresses, and stayed with where it was found", async () => {
    const net = new Net();
    net.addresses.set(2, ["old:1", "peer:2"]);
    const peer = await net.listen("peer:2");
    net.links.want("test", [nodeId(2)]);
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), 1_000);
    expect(net.events).toEqual(["refused 2 at old:1", "connected 2"]);
    peer.connections[0]?.destroy();
    await net.world.runUntil(() => net.count("connected") === 2, net.world.nowMs + 1_000);
    expect(net.count("refused")).toBe(1);
  });

  it("is left when nobody wants it any more and nobody used it for long; one owner's wish is not another's", async () => {
    const net = new Net();
    await net.listen("peer:2");
    net.links.want("one", [nodeId(2)]);
    net.links.want("other", [nodeId(2)]);
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), 1_000);
    net.links.want("one", []);
    await net.world.runFor(60_000);
    expect(net.links.isConnected(nodeId(2))).toBe(true);
    net.links.want("other", []);
    await net.world.runFor(5_000);
    expect(net.links.isConnected(nodeId(2))).toBe(false);
  });

  it("that stands still is let go of once somebody waits for its answer in vain, and dialled again", async () => {
    const net = new Net();
    await net.listen("peer:2");
    net.links.want("test", [nodeId(2)]);
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), 1_000);
    await net.world.runFor(10);
    net.network.cut("self", "peer:2");
    await expect(net.world.settle(net.adopt(500))).rejects.toMatchObject({ code: "REQUEST_TIMED_OUT" });
    expect(net.events.at(-1)).toBe("lost 2");
    net.network.mend("self", "peer:2");
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), net.world.nowMs + 5_000);
    await net.world.settle(net.adopt());
  });
});

describe("who answers", () => {
  it("another node at that address is no peer", async () => {
    const net = new Net();
    await net.listen("peer:2", { nodeId: nodeId(9) });
    await expect(net.world.settle(net.adopt())).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(net.links.faultOf(nodeId(2))).toContain("is node 9");
  });

  it("a node of another cluster is none; one of no cluster yet is", async () => {
    const net = new Net();
    const foreign = await net.listen("peer:2", { clusterId: idOf(5) });
    await expect(net.world.settle(net.adopt())).rejects.toMatchObject({ code: "CONNECTION_FAILED" });
    expect(net.links.faultOf(nodeId(2))).toContain("cluster");
    net.kill(foreign);
    await net.listen("peer:2", { clusterId: NO_CLUSTER });
    await net.world.settle(net.adopt(5_000));
  });
});

describe("calls and messages", () => {
  it("a call waits for the connection, within its time", async () => {
    const net = new Net();
    const early = net.adopt(3_000);
    await net.world.runFor(500);
    const peer = await net.listen("peer:2");
    await net.world.settle(early);
    expect(peer.requests).toBe(1);
    net.addresses.set(3, []);
    await expect(
      net.world.settle(net.links.call(nodeId(3), API.ADOPT, { clusterId: CLUSTER, voters: [] }, { timeoutMs: 300 })),
    ).rejects.toMatchObject({ code: "CONNECTION_FAILED", message: "node 3: its address is not known" });
  });

  it("a one-way message is dropped while there is no connection, and while too much is on its way", async () => {
    const net = new Net();
    const message = { clusterId: CLUSTER, from: "1:a", to: "2:b", boots: 1 };
    const tell = (bytes: number): boolean =>
      net.links.tell(nodeId(2), API.RAFT, {
        request: {
          ...message,
          message: {
            kind: "append",
            term: 1,
            start: 0,
            prevTerm: 0,
            commitEnd: 0,
            entries: [{ term: 1, kind: "command" }],
          },
        },
        bodies: [new Uint8Array(bytes)],
      });
    expect(tell(10)).toBe(false);
    await net.listen("peer:2");
    net.links.want("test", [nodeId(2)]);
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), 1_000);
    expect(tell(10)).toBe(true);
    net.network.cut("self", "peer:2");
    let told = 0;
    while (tell(500_000)) told++;
    expect(told).toBeLessThan(12);
  });

  it("a probe connects now, whatever the back-off, and says what it met", async () => {
    const net = new Net();
    net.links.want("test", [nodeId(2)]);
    await net.world.runFor(10_000);
    expect(await net.world.settle(net.links.probe(nodeId(2)))).toBe("refused");
    await net.listen("peer:2");
    const beganMs = net.world.nowMs;
    expect(await net.world.settle(net.links.probe(nodeId(2)))).toBe("connected");
    expect(net.world.nowMs - beganMs).toBeLessThan(10);
  });

  it("after the close nothing is called, told or connected", async () => {
    const net = new Net();
    await net.listen("peer:2");
    net.links.want("test", [nodeId(2)]);
    await net.world.runUntil(() => net.links.isConnected(nodeId(2)), 1_000);
    await net.world.settle(net.links.close());
    await expect(net.world.settle(net.adopt())).rejects.toMatchObject({ code: "CLOSED" });
    net.links.want("test", [nodeId(2)]);
    await net.world.runFor(2_000);
    expect(net.links.connected).toEqual([]);
  });
});

describe("the end of all links", () => {
  it("leaves no connection behind whose peer has not answered Hello", async () => {
    const net = new Net();
    const peer = await net.listen("peer:2", { isMute: true });
    net.links.want("test", [nodeId(2)]);
    const asking = net.links.whoIsAt("peer:2", 1_000);
    await net.world.runFor(100);
    expect([peer.connections.length, peer.ended]).toEqual([2, 0]);
    await net.world.settle(net.links.close());
    expect(await net.world.settle(asking)).toBeUndefined();
    await net.world.runFor(5_000);
    expect([peer.connections.length, peer.ended]).toEqual([2, 2]);
  });

  it("ends also what was still being connected", async () => {
    const net = new Net();
    const peer = await net.listen("peer:2", { isMute: true });
    net.links.want("test", [nodeId(2)]);
    const asking = net.links.whoIsAt("peer:2", 1_000);
    await net.world.settle(net.links.close());
    await net.world.settle(asking);
    await net.world.runFor(5_000);
    expect(peer.ended).toBe(peer.connections.length);
  });
});
