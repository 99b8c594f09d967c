// Several brokers in one simulated world, and what a test asks of them.
import { API, type ApiTypes } from "../../src/wire/native/apis.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { BrokerWorld, makeWorld, type TestClient, type WorldSettings } from "./support.ts";

export interface ClusterSettings extends Omit<WorldSettings, "beside"> {
  readonly nodes?: number;
  /** How many of them are voters. */
  readonly voters?: number;
}

type Metadata = ApiTypes[typeof API.METADATA]["response"];

export class ClusterWorld {
  readonly nodes: readonly BrokerWorld[];
  readonly world: BrokerWorld["world"];
  readonly network: BrokerWorld["network"];
  readonly #clients = new Map<BrokerWorld, { readonly broker: unknown; readonly client: TestClient }>();

  constructor({ nodes = 3, voters = nodes, config, ...settings }: ClusterSettings = {}) {
    const beside = makeWorld(settings.seed);
    this.world = beside.world;
    this.network = beside.network;
    const list = Array.from({ length: voters }, (_, index) => `${index + 1}@node${index + 1}:7070`).join(",");
    this.nodes = Array.from({ length: nodes }, (_, index) => {
      const own = { "node.id": index + 1, "controller.quorum.voters": list };
      const name = `node${index + 1}`;
      return new BrokerWorld({ ...settings, config: { ...own, ...config }, beside: { ...beside, name } });
    });
  }

  node(nodeId: number): BrokerWorld {
    const node = this.nodes[nodeId - 1];
    if (node === undefined) throw new Error(`no node ${nodeId}`);
    return node;
  }

  /** Starts all; resolves when every one of them runs. */
  async start(): Promise<this> {
    await this.world.settle(Promise.all(this.nodes.map((node) => node.begin())), 60_000);
    return this;
  }

  /** Runs the world until it holds; fails when it does not in time. */
  async until(what: string, condition: () => boolean | Promise<boolean>, limitMs = 20_000): Promise<void> {
    const endMs = this.world.nowMs + limitMs;
    while (!(await condition())) {
      if (this.world.nowMs >= endMs) throw new Error(`not within ${limitMs} simulated ms: ${what}`);
      await this.world.runFor(20);
    }
  }

  /** Node id of the broker that says that it is the controller, of those that are up and not `except`. */
  async controller(except?: number): Promise<number> {
    let found: number | undefined;
    await this.until("a controller", () => {
      const all = this.nodes.filter(({ config, isUp }) => isUp && config["node.id"] !== except);
      found = all.find(({ metrics }) => metrics.values.get("controller_active") === 1)?.config["node.id"];
      return found !== undefined;
    });
    return found ?? 0;
  }

  /** A connection to the process that runs there now. */
  async client(nodeId: number): Promise<TestClient> {
    const node = this.node(nodeId);
    const known = this.#clients.get(node);
    if (known !== undefined && known.broker === node.broker && known.client.closedWith === undefined)
      return known.client;
    const client = await node.connect();
    this.#clients.set(node, { broker: node.broker, client });
    return client;
  }

  /** What the node's own image says. */
  async metadata(nodeId: number, barrier = false): Promise<Metadata> {
    const client = await this.client(nodeId);
    const { response, error } = await client.call(API.METADATA, { topics: null, after: null, barrier }, { version: 2 });
    if (error !== "NONE") throw new Error(error);
    return response;
  }

  async createTopic(name: string, partitions = 1): Promise<TopicId> {
    const client = await this.client(await this.controller());
    return client.createTopic(name, { partitions });
  }

  /** Leader of each partition as the node knows it; -1 = none. */
  async leaders(nodeId: number, topic: string): Promise<number[]> {
    const { topics } = await this.metadata(nodeId);
    return topics.find(({ name }) => name === topic)?.partitions.map(({ leader }) => leader) ?? [];
  }

  async fenced(nodeId: number): Promise<number[]> {
    const { brokers } = await this.metadata(nodeId);
    return brokers.filter(({ isFenced }) => isFenced).map((broker) => broker.nodeId);
  }

  /** The machine stands still. */
  pause(nodeId: number): void {
    this.world.pause(this.world.machine(this.node(nodeId).name));
  }

  resume(nodeId: number): void {
    this.world.resume(this.world.machine(this.node(nodeId).name));
  }

  /** Nothing gets through between the node and the others, either way; clients still reach it. */
  isolate(nodeId: number): void {
    for (const [from, to] of this.#pathsOf(nodeId)) this.network.cut(from, to);
  }

  rejoin(nodeId: number): void {
    for (const [from, to] of this.#pathsOf(nodeId)) this.network.mend(from, to);
  }

  #pathsOf(nodeId: number): (readonly [string, string])[] {
    const { name } = this.node(nodeId);
    const others = this.nodes.map((node) => node.name).filter((other) => other !== name);
    return others.flatMap((other): (readonly [string, string])[] => [
      [name, other],
      [other, name],
    ]);
  }

  /** A partition that the node leads, of a topic with one partition on each of three nodes, as the controller tells it. */
  async partitionOf(nodeId: number, topic: string): Promise<number> {
    const leaders = await this.leaders(await this.controller(), topic);
    const partition = leaders.indexOf(nodeId);
    if (partition < 0) throw new Error(`node ${nodeId} leads nothing of ${topic}: ${leaders.join(" ")}`);
    return partition;
  }

  /** A node that is not the controller. */
  async follower(): Promise<number> {
    const controller = await this.controller();
    return (controller % this.nodes.length) + 1;
  }
}
