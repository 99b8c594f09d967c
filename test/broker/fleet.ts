// What an operator does to a cluster: brokers that are stopped, started as another build or with another configuration, real clients that load
// them meanwhile, and disks that can be looked at. Over ClusterWorld.
import { createSimHost } from "../../scripts/sim-host.ts";
import { bytesEqual, utf8Decode } from "../../src/base/bytes.ts";
import { openClient } from "../../src/client/client.ts";
import type { Admin, Client, Producer } from "../../src/client/types.ts";
import { asOttlaError, type OttlaError } from "../../src/model/errors.ts";
import type { Timers } from "../../src/ports/timers.ts";
import type { Node } from "../../src/sim/disk-image.ts";
import type { SimDisk } from "../../src/sim/disk.ts";
import { createSimLogger } from "../../src/sim/sim-ports.ts";
import { createSimClock, createSimTimers } from "../../src/sim/world.ts";
import { type ClusterSettings, ClusterWorld } from "./cluster-world.ts";
import { BrokerWorld } from "./support.ts";

const host = await createSimHost();
const SETTLE_MS = 120_000;

export interface NodeChange {
  readonly metadataVersions?: { readonly min: number; readonly max: number };
  /** Instead of all that it was started with but node.id, listeners and data.dir. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export class Fleet extends ClusterWorld {
  readonly #raftSettings: ClusterSettings["raftSettings"];

  constructor(settings: ClusterSettings = {}) {
    super(settings);
    this.#raftSettings = settings.raftSettings;
  }

  settle<T>(promise: Promise<T>, limitMs = SETTLE_MS): Promise<T> {
    return this.world.settle(promise, limitMs);
  }

  run(ms: number): Promise<void> {
    return this.world.runFor(ms);
  }

  /** What `start()` of the node rejects with. */
  async refusalOf(nodeId: number): Promise<OttlaError> {
    const started = this.node(nodeId).begin();
    const refusal = await this.settle(
      started.then(
        () => undefined,
        (thrown: unknown) => asOttlaError(thrown),
      ),
    );
    if (refusal === undefined) throw new Error(`node ${nodeId} started`);
    return refusal;
  }

  /** A node that is down, with the disk that it has, as it will be when it is started again. */
  change(nodeId: number, { metadataVersions, config }: NodeChange): void {
    const before = this.node(nodeId);
    if (metadataVersions !== undefined) before.metadataVersions = metadataVersions;
    if (config === undefined) return;
    const after = new BrokerWorld({
      config: { "node.id": nodeId, ...config },
      beside: { world: this.world, network: this.network, name: before.name },
      ...(before.metadataVersions === undefined ? {} : { metadataVersions: before.metadataVersions }),
      ...(this.#raftSettings === undefined ? {} : { raftSettings: this.#raftSettings }),
    });
    after.disk = before.disk;
    (this.nodes as BrokerWorld[])[nodeId - 1] = after;
  }

  /** An ordered stop, and a start as something else; resolves when it runs again. */
  async restart(nodeId: number, change: NodeChange = {}): Promise<void> {
    await this.node(nodeId).stop();
    this.change(nodeId, change);
    await this.settle(this.node(nodeId).begin());
  }

  /** A real client, in a process of its own. */
  async open(name: string, nodeIds: readonly number[] = this.nodes.map(({ config }) => config["node.id"])) {
    const { world } = this;
    const owner = world.startIncarnation(name);
    const timers = createSimTimers(world, owner);
    const client = await this.settle(
      openClient(
        {
          clock: createSimClock(world, owner),
          timers,
          transport: this.network.messages(owner),
          checksum: world.checksum,
          codecs: host.codecs,
          logger: createSimLogger(world, name),
          rng: world.fork(`client ${name}`),
        },
        { brokers: nodeIds.map((nodeId) => this.node(nodeId).address), clientId: name, connectTimeoutMs: SETTLE_MS },
      ),
    );
    return new FleetClient(this, client, timers);
  }

  /** Images of these nodes, once they are equally far: they must be one and the same. */
  async sameImages(nodeIds: readonly number[]): Promise<void> {
    let last = "";
    await this.until("equal images", async () => {
      const views = await Promise.all(nodeIds.map((nodeId) => this.metadata(nodeId)));
      last = views.map(({ metadataEnd }) => metadataEnd).join(", ");
      const texts = views.map((view) => JSON.stringify({ ...view, controllerId: 0 }));
      return new Set(texts).size === 1;
    }).catch((thrown: unknown) => {
      throw new Error(`images differ at ${last}`, { cause: thrown });
    });
  }
}

export class FleetClient {
  readonly client: Client;
  readonly admin: Admin;
  readonly fleet: Fleet;
  readonly #timers: Timers;

  constructor(fleet: Fleet, client: Client, timers: Timers) {
    this.fleet = fleet;
    this.client = client;
    this.admin = client.admin();
    this.#timers = timers;
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => void this.#timers.after(delayMs, resolve));
  }

  /** The call's error; fails when there is none. */
  async refused(call: Promise<unknown>): Promise<OttlaError> {
    const outcome = await this.fleet.settle(
      call.then(
        () => undefined,
        (thrown: unknown) => asOttlaError(thrown),
      ),
    );
    if (outcome === undefined) throw new Error("it was not refused");
    return outcome;
  }

  /** Every record of a topic, by partition and offset. */
  async readAll(topic: string): Promise<Map<string, string>> {
    return this.fleet.settle(this.#readAll(topic));
  }

  async #readAll(topic: string): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    const consumer = this.client.consumer({ topics: [topic], untilEnd: true });
    for await (const { partition, offset, value, key } of consumer)
      found.set(placeOf(partition, offset), `${textOf(key)}=${textOf(value)}`);
    return found;
  }
}

const textOf = (bytes: Uint8Array | null): string => (bytes === null ? "null" : utf8Decode(bytes));
export const placeOf = (partition: number, offset: number): string => `${partition}@${offset}`;

/** A client that sends and creates topics without a pause, and knows what it was told. */
export class Load {
  readonly topic: string;
  /** Value by partition and offset. */
  readonly acknowledged = new Map<string, string>();
  /** Id by name, of creations that were acknowledged. */
  readonly created = new Map<string, string>();
  /** Names of creations of which nobody knows. */
  readonly doubtful: string[] = [];
  readonly errors: OttlaError[] = [];
  readonly #who: FleetClient;
  readonly #producer: Producer;
  readonly #partitions: number;
  #isStopping = false;
  #work: Promise<unknown> = Promise.resolve();

  constructor(who: FleetClient, { topic, partitions }: { readonly topic: string; readonly partitions: number }) {
    this.#who = who;
    this.topic = topic;
    this.#partitions = partitions;
    this.#producer = who.client.producer({ lingerMs: 5, requestTimeoutMs: 1_000, deliveryTimeoutMs: 60_000 });
  }

  async begin(): Promise<void> {
    await this.#who.fleet.settle(this.#who.admin.createTopic(this.topic, { partitions: this.#partitions }));
    this.#work = Promise.all([this.#produce(), this.#create()]);
  }

  /** Resolves when all that was asked for has its answer. */
  async end(): Promise<void> {
    this.#isStopping = true;
    await this.#who.fleet.settle(this.#work);
    await this.#who.fleet.settle(this.#producer.close({ timeoutMs: SETTLE_MS }));
  }

  async #produce(): Promise<void> {
    const sends: Promise<void>[] = [];
    for (let number = 0; !this.#isStopping; number++) {
      sends.push(this.#send(number));
      await this.#who.wait(20);
    }
    await Promise.all(sends);
  }

  async #send(number: number): Promise<void> {
    const partition = number % this.#partitions;
    const record = { partition, key: `k${number}`, value: `v${number}` };
    try {
      const { offset } = await this.#producer.send(this.topic, record, { acks: "all" });
      this.acknowledged.set(placeOf(partition, offset ?? -1), `${record.key}=${record.value}`);
    } catch (thrown) {
      this.errors.push(asOttlaError(thrown));
    }
  }

  async #create(): Promise<void> {
    for (let number = 0; !this.#isStopping; number++) {
      const name = `made-${number}`;
      try {
        const { topicId } = await this.#who.admin.createTopic(name, { timeoutMs: 20_000 });
        this.created.set(name, topicId);
      } catch (thrown) {
        const error = asOttlaError(thrown);
        // "appended": it is there, only its leader took too long.
        if (error.outcome !== undefined) this.doubtful.push(name);
        this.errors.push(error);
      }
      await this.#who.wait(100);
    }
  }

  /** What is missing or other than it was told; empty when nothing is. */
  async lost(): Promise<string[]> {
    const faults: string[] = [];
    const records = await this.#who.readAll(this.topic);
    for (const [place, text] of this.acknowledged)
      if (records.get(place) !== text) faults.push(`${place}: told ${text}, reads ${records.get(place)}`);
    const topics = await this.#who.fleet.settle(this.#who.admin.listTopics({ linearizable: true }));
    const ids = new Map(topics.map(({ name, topicId }) => [name, topicId]));
    for (const [name, topicId] of this.created)
      if (ids.get(name) !== topicId) faults.push(`${name}: told ${topicId}, is ${ids.get(name)}`);
    for (const name of ids.keys())
      if (name.startsWith("made-") && !this.created.has(name) && !this.doubtful.includes(name))
        faults.push(`${name}: refused, and there`);
    return faults;
  }
}

/** The files below a path as processes see them, by path. */
export function filesOf(disk: SimDisk, path: string): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  const walk = (at: string, node: Node | undefined): void => {
    if (node?.kind === "file") files.set(at, node.live.view.slice());
    else if (node !== undefined) for (const [name, child] of node.live) walk(`${at}/${name}`, child);
  };
  walk(path, disk.image.find(path));
  return files;
}

/** Paths that are not what they were. */
export function changedFiles(
  before: ReadonlyMap<string, Uint8Array>,
  after: ReadonlyMap<string, Uint8Array>,
): string[] {
  const changed = [...before].filter(([path, bytes]) => {
    const now = after.get(path);
    return now === undefined || !bytesEqual(now, bytes);
  });
  const added = [...after.keys()].filter((path) => !before.has(path));
  return [...changed.map(([path]) => path), ...added].toSorted();
}
