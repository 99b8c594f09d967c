// One client process of the metadata workload: changes and looks, one after the other; also a few records, each of which names itself.
import { utf8Encode } from "../../base/bytes.ts";
import type { Rng } from "../../base/rng.ts";
import type { Admin, BatchReport, Client, Producer, TopicInfo } from "../../client/types.ts";
import { asOttlaError, type OttlaError } from "../../model/errors.ts";
import type { Timers } from "../../ports/timers.ts";
import type { ConfigChange, MetadataResult, MetadataWish, TopicSeen } from "../../checkers/metadata-history.ts";
import { createSimTimers, type Incarnation } from "../world.ts";
import type { MetadataWorkloadParts, NamePool } from "./metadata-clients.ts";
import { openSimClient } from "./open-client.ts";
import { valueOf } from "../../checkers/named-records.ts";

/** Refusals that tell what the controller found. */
const TELLING = ["TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION"];
const LOOK_MS = 1000;
const READ_MS = 3000;

type Act = () => Promise<void>;

export class MetadataClient {
  readonly name: string;
  operations = 0;
  /** When the last operation ended. */
  endedMs = 0;
  readonly #parts: MetadataWorkloadParts;
  readonly #plan: { readonly thinkMs: number; readonly pool: NamePool };
  readonly #rng: Rng;
  readonly #owner: Incarnation;
  readonly #timers: Timers;
  #client: Promise<Client> | undefined;
  #producer: Producer | undefined;
  /** The one record under way. */
  #mark = "";
  #marks = 0;

  constructor(name: string, parts: MetadataWorkloadParts, plan: { readonly thinkMs: number; readonly pool: NamePool }) {
    this.name = name;
    this.#parts = parts;
    this.#plan = plan;
    this.#rng = parts.world.fork(`workload ${name}`);
    this.#owner = parts.world.startIncarnation(name);
    this.#timers = createSimTimers(parts.world, this.#owner);
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => void this.#timers.after(delayMs, resolve));
  }

  async run(isStopping: () => boolean): Promise<void> {
    const admin = await this.#admin();
    while (!isStopping()) {
      await this.wait(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * this.#plan.thinkMs);
      if (!isStopping()) await this.#pick(admin)();
    }
    await this.#producer?.close();
  }

  async close(): Promise<void> {
    const client = await this.#client;
    await client?.close();
  }

  #connect(): Promise<Client> {
    this.#client ??= openSimClient(this.name, this.#parts, this.#owner, this.#timers);
    return this.#client;
  }

  async #admin(): Promise<Admin> {
    return (await this.#connect()).admin();
  }

  // --- what it does next

  #pick(admin: Admin): Act {
    const topic = this.#plan.pool.pick(this.#rng);
    const timeoutMs = this.#rng.pick([400, 1500, 5000]);
    const acts: readonly (readonly [weight: number, act: Act])[] = [
      [22, () => this.#create(admin, topic, timeoutMs)],
      [18, () => this.#delete(admin, topic, timeoutMs)],
      [16, () => this.#describe(admin, topic, timeoutMs)],
      [6, async () => void (await this.list(timeoutMs))],
      [8, () => this.#alterTopic(admin, topic, timeoutMs)],
      [3, () => this.#alterCluster(admin, timeoutMs)],
      [4, () => this.#describeCluster(admin, timeoutMs)],
      [14, async () => void (await this.look(this.#rng.pick(this.#parts.nodes), this.#plan.pool.recent))],
      [9, () => this.#sendMark(topic)],
      [5, () => this.readMarks(topic)],
    ];
    let drawn = this.#rng.below(acts.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, act] of acts) {
      drawn -= weight;
      if (drawn < 0) return act;
    }
    return () => Promise.resolve();
  }

  #create(admin: Admin, topic: string, timeoutMs: number): Promise<void> {
    const configs = this.#rng.chance(0.6) ? {} : { "index.interval.bytes": this.#rng.pick(["128", "1024"]) };
    const partitions = this.#rng.between(1, 3);
    return this.#change({ kind: "create topic", topic, configs }, async () => {
      const { topicId } = await admin.createTopic(topic, { partitions, configs, timeoutMs });
      // Created, and deleted again by somebody else before its id was told.
      return topicId === "" ? undefined : { kind: "created", topicId };
    });
  }

  #delete(admin: Admin, topic: string, timeoutMs: number): Promise<void> {
    return this.#change({ kind: "delete topic", topic }, async () => {
      await admin.deleteTopic(topic, { timeoutMs });
      return { kind: "done" };
    });
  }

  #alterTopic(admin: Admin, topic: string, timeoutMs: number): Promise<void> {
    const change = this.#rng.pick<ConfigChange>([
      { key: "index.interval.bytes", value: this.#rng.pick(["128", "1024", "4096"]) },
      { key: "index.interval.bytes", value: null },
      { key: "max.message.bytes", value: this.#rng.pick(["1024", "2048"]) },
    ]);
    return this.#change({ kind: "alter topic configs", topic, changes: [change] }, async () => {
      await admin.alterTopicConfigs(topic, { [change.key]: change.value }, { timeoutMs });
      return { kind: "done" };
    });
  }

  #alterCluster(admin: Admin, timeoutMs: number): Promise<void> {
    const change = this.#rng.pick<ConfigChange>([
      { key: "num.partitions", value: this.#rng.pick(["1", "2", "3"]) },
      { key: "num.partitions", value: null },
      { key: "index.interval.bytes", value: this.#rng.pick(["64", "2048"]) },
    ]);
    return this.#change({ kind: "alter broker configs", broker: "", changes: [change] }, async () => {
      await admin.alterBrokerConfigs("default", { [change.key]: change.value }, { timeoutMs });
      return { kind: "done" };
    });
  }

  #describe(admin: Admin, topic: string, timeoutMs: number): Promise<void> {
    return this.#change({ kind: "describe topic", topic }, async () => {
      const found = await admin
        .describeTopic(topic, { linearizable: true, timeoutMs })
        .catch((thrown: unknown) => unlessMissing(thrown));
      return { kind: "topics", topics: found === undefined ? [] : [seenOf(found)] };
    });
  }

  #describeCluster(admin: Admin, timeoutMs: number): Promise<void> {
    return this.#change({ kind: "describe broker configs", broker: "" }, async () => {
      const found = await admin.describeConfigs({ broker: "default" }, { linearizable: true, timeoutMs });
      const set = found.filter(({ source }) => source === "cluster");
      return { kind: "configs", configs: Object.fromEntries(set.map(({ key, value }) => [key, value])) };
    });
  }

  /** Names of the workload's topics that there are now. */
  async list(timeoutMs = 30_000): Promise<readonly string[]> {
    const admin = await this.#admin();
    let names: readonly string[] = [];
    await this.#change({ kind: "list topics" }, async () => {
      const found = await admin.listTopics({ linearizable: true, timeoutMs });
      const topics = found.filter(({ name }) => this.#plan.pool.has(name)).map(seenOf);
      names = topics.map(({ topic }) => topic);
      return { kind: "topics", topics };
    });
    return names;
  }

  /** What one node says by itself; false when it says nothing. */
  async look(node: number, asked: readonly string[]): Promise<boolean> {
    const { world, record } = this.#parts;
    const admin = await this.#admin();
    const invokedMs = world.nowMs;
    const ask = { topics: asked, from: node, timeoutMs: LOOK_MS };
    const view = await admin.describeMetadata(ask).catch((thrown: unknown) => this.#silent(thrown));
    if (view === undefined) return false;
    const { metadataEnd } = view;
    const topics = view.topics.map(seenOf);
    const said = { process: this.name, node, metadataEnd, asked, topics };
    record({ type: "metadata seen", invokedMs, timeMs: world.nowMs, ...said });
    return true;
  }

  #silent(thrown: unknown): undefined {
    const { world } = this.#parts;
    const error = asOttlaError(thrown);
    world.sometimes(`look ended ${error.code}`);
    if (error.code === "UNKNOWN_SERVER_ERROR") world.fail(error);
  }

  // --- one operation, written down

  /** `act` resolves with undefined when it does not know what it did. */
  async #change(wish: MetadataWish, act: () => Promise<MetadataResult | undefined>): Promise<void> {
    const { world, record, nextOperation } = this.#parts;
    const operation = nextOperation();
    record({ type: "metadata invoked", timeMs: world.nowMs, operation, process: this.name, wish });
    try {
      const result = await act();
      const timeMs = world.nowMs;
      if (result === undefined) record({ type: "metadata unknown", timeMs, operation, reason: "it is gone again" });
      else record({ type: "metadata ok", timeMs, operation, result });
      world.sometimes(`${wish.kind} ok`);
    } catch (thrown) {
      this.#failed(wish, operation, asOttlaError(thrown));
    }
    this.operations++;
    this.endedMs = world.nowMs;
  }

  #failed(wish: MetadataWish, operation: number, error: OttlaError): void {
    const { world, record } = this.#parts;
    const { code } = error;
    const isRead = wish.kind.startsWith("describe") || wish.kind === "list topics";
    const ending = { timeMs: world.nowMs, operation };
    world.sometimes(`${wish.kind} ended ${code}, ${error.outcome ?? "not done"}`);
    if (code === "UNKNOWN_SERVER_ERROR") world.fail(error);
    const reason = `${code}: ${error.message}`;
    if (isRead) record({ type: "metadata failed", ...ending, reason });
    // "appended": it was done, but the topic's id is not known.
    else if (error.outcome !== undefined) record({ type: "metadata unknown", ...ending, reason });
    else if (TELLING.includes(code)) record({ type: "metadata refused", ...ending, code });
    else record({ type: "metadata failed", ...ending, reason });
  }

  // --- records that name themselves

  async #sendMark(topic: string): Promise<void> {
    const client = await this.#connect();
    this.#producer ??= client.producer({
      acks: "all",
      lingerMs: 0,
      deliveryTimeoutMs: 2000,
      requestTimeoutMs: 800,
      onBatch: (report) => this.#acknowledged(report),
    });
    this.#mark = `${this.name}:${this.#marks++}`;
    await this.#producer.send(topic, { value: utf8Encode(`${this.#mark}|`) }).catch((thrown: unknown) => {
      this.#parts.world.sometimes(`mark ended ${asOttlaError(thrown).code}`);
    });
  }

  /** One record is under way at a time, so it is this batch's. */
  #acknowledged({ topic, topicId, partition, baseOffset, error }: BatchReport): void {
    if (error !== undefined || topicId === undefined || baseOffset === undefined) return;
    const { world, record } = this.#parts;
    world.sometimes("mark acknowledged");
    const place = { process: this.name, topic, topicId, partition, offset: baseOffset };
    record({ type: "mark acknowledged", timeMs: world.nowMs, ...place, mark: this.#mark });
  }

  /** All that is in a topic, if it can be read in time. */
  async readMarks(topic: string): Promise<void> {
    const { world, record } = this.#parts;
    const client = await this.#connect();
    const consumer = client.consumer({ topics: [topic], untilEnd: true, maxWaitMs: 100, onOutOfRange: "error" });
    const timer = this.#timers.after(READ_MS, () => void consumer.close());
    try {
      for await (const batch of consumer.batches()) {
        const { topicId, partition } = batch;
        for (const { offset, value } of batch) {
          const place = { process: this.name, topic, topicId, partition, offset };
          record({ type: "mark read", timeMs: world.nowMs, ...place, mark: valueOf(value) });
          world.sometimes("mark read");
        }
      }
    } catch (thrown) {
      const error = asOttlaError(thrown);
      world.sometimes(`read of marks ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR" || error.code === "CORRUPT_MESSAGE") world.fail(error);
    } finally {
      timer.cancel();
      await consumer.close();
    }
  }
}

function seenOf({ name, topicId, isDeleting, configs }: TopicInfo): TopicSeen {
  return { topic: name, topicId, isDeleting, configs };
}

/** Said by the controller: there is none. */
function unlessMissing(thrown: unknown): undefined {
  const error = asOttlaError(thrown);
  if (error.code === "UNKNOWN_TOPIC_OR_PARTITION" && error.cause === undefined) return;
  throw error;
}
