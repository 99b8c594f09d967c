// One client of the metadata workload, in a simulated or a real process: changes and looks, one after the other; also a few records, each of which
// names itself.
import { utf8Encode } from "../base/bytes.ts";
import type { Rng } from "../base/rng.ts";
import type { Admin, BatchReport, Client, Producer, TopicInfo } from "../client/types.ts";
import { asOttlaError, type OttlaError } from "../model/errors.ts";
import type { Unstamped } from "./history.ts";
import type { ConfigChange, MetadataResult, MetadataWish, TopicSeen } from "./metadata-history.ts";
import { valueOf } from "./named-records.ts";

/** Refusals that tell what the controller found. */
const TELLING = ["TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION"];
const LOOK_MS = 1000;
const READ_MS = 3000;

type Act = () => Promise<void>;

/** The process that the client is in. */
export interface MetadataHost {
  readonly name: string;
  readonly rng: Rng;
  readonly pool: NamePool;
  readonly nodes: readonly number[];
  /** Mean pause between two operations. */
  readonly thinkMs: number;
  nowMs(): number;
  wait(delayMs: number): Promise<void>;
  after(delayMs: number, act: () => void): { cancel(): void };
  connect(): Promise<Client>;
  record(event: Unstamped): void;
  nextOperation(): number;
  /** Something that is worth counting happened. */
  sometimes(what: string): void;
  /** Something that may never happen did. */
  fail(error: OttlaError): void;
}

export class MetadataClient {
  readonly name: string;
  operations = 0;
  /** When the last operation ended. */
  endedMs = 0;
  readonly #host: MetadataHost;
  readonly #rng: Rng;
  #client: Promise<Client> | undefined;
  #producer: Producer | undefined;
  /** The one record under way. */
  #mark = "";
  #marks = 0;

  constructor(host: MetadataHost) {
    this.name = host.name;
    this.#host = host;
    this.#rng = host.rng;
  }

  wait(delayMs: number): Promise<void> {
    return this.#host.wait(delayMs);
  }

  async run(isStopping: () => boolean): Promise<void> {
    const admin = await this.#admin();
    while (!isStopping()) {
      await this.wait(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * this.#host.thinkMs);
      if (!isStopping()) await this.#pick(admin)();
    }
    await this.#producer?.close();
  }

  async close(): Promise<void> {
    const client = await this.#client;
    await client?.close();
  }

  #connect(): Promise<Client> {
    this.#client ??= this.#host.connect();
    return this.#client;
  }

  async #admin(): Promise<Admin> {
    return (await this.#connect()).admin();
  }

  // --- what it does next

  #pick(admin: Admin): Act {
    const topic = this.#host.pool.pick(this.#rng);
    const timeoutMs = this.#rng.pick([400, 1500, 5000]);
    const acts: readonly (readonly [weight: number, act: Act])[] = [
      [22, () => this.#create(admin, topic, timeoutMs)],
      [18, () => this.#delete(admin, topic, timeoutMs)],
      [16, () => this.#describe(admin, topic, timeoutMs)],
      [6, async () => void (await this.list(timeoutMs))],
      [8, () => this.#alterTopic(admin, topic, timeoutMs)],
      [3, () => this.#alterCluster(admin, timeoutMs)],
      [4, () => this.#describeCluster(admin, timeoutMs)],
      [14, async () => void (await this.look(this.#rng.pick(this.#host.nodes), this.#host.pool.recent))],
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
      const topics = found.filter(({ name }) => this.#host.pool.has(name)).map(seenOf);
      names = topics.map(({ topic }) => topic);
      return { kind: "topics", topics };
    });
    return names;
  }

  /** What one node says by itself; false when it says nothing. */
  async look(node: number, asked: readonly string[]): Promise<boolean> {
    const host = this.#host;
    const admin = await this.#admin();
    const invokedMs = host.nowMs();
    const ask = { topics: asked, from: node, timeoutMs: LOOK_MS };
    const view = await admin.describeMetadata(ask).catch((thrown: unknown) => this.#silent(thrown));
    if (view === undefined) return false;
    const { metadataEnd } = view;
    const topics = view.topics.map(seenOf);
    const said = { process: this.name, node, metadataEnd, asked, topics };
    host.record({ type: "metadata seen", invokedMs, ...said });
    return true;
  }

  #silent(thrown: unknown): undefined {
    const error = asOttlaError(thrown);
    this.#host.sometimes(`look ended ${error.code}`);
    if (error.code === "UNKNOWN_SERVER_ERROR") this.#host.fail(error);
  }

  // --- one operation, written down

  /** `act` resolves with undefined when it does not know what it did. */
  async #change(wish: MetadataWish, act: () => Promise<MetadataResult | undefined>): Promise<void> {
    const host = this.#host;
    const operation = host.nextOperation();
    host.record({ type: "metadata invoked", operation, process: this.name, wish });
    try {
      const result = await act();
      if (result === undefined) host.record({ type: "metadata unknown", operation, reason: "it is gone again" });
      else host.record({ type: "metadata ok", operation, result });
      host.sometimes(`${wish.kind} ok`);
    } catch (thrown) {
      this.#failed(wish, operation, asOttlaError(thrown));
    }
    this.operations++;
    this.endedMs = host.nowMs();
  }

  #failed(wish: MetadataWish, operation: number, error: OttlaError): void {
    const host = this.#host;
    const { code } = error;
    const isRead = wish.kind.startsWith("describe") || wish.kind === "list topics";
    host.sometimes(`${wish.kind} ended ${code}, ${error.outcome ?? "not done"}`);
    if (code === "UNKNOWN_SERVER_ERROR") host.fail(error);
    const reason = `${code}: ${error.message}`;
    if (isRead) host.record({ type: "metadata failed", operation, reason });
    // "appended": it was done, but the topic's id is not known.
    else if (error.outcome !== undefined) host.record({ type: "metadata unknown", operation, reason });
    else if (TELLING.includes(code)) host.record({ type: "metadata refused", operation, code });
    else host.record({ type: "metadata failed", operation, reason });
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
      this.#host.sometimes(`mark ended ${asOttlaError(thrown).code}`);
    });
  }

  /** One record is under way at a time, so it is this batch's. */
  #acknowledged({ topic, topicId, partition, baseOffset, error }: BatchReport): void {
    if (error !== undefined || topicId === undefined || baseOffset === undefined) return;
    this.#host.sometimes("mark acknowledged");
    const place = { process: this.name, topic, topicId, partition, offset: baseOffset };
    this.#host.record({ type: "mark acknowledged", ...place, mark: this.#mark });
  }

  /** All that is in a topic, if it can be read in time. */
  async readMarks(topic: string): Promise<void> {
    const host = this.#host;
    const client = await this.#connect();
    const consumer = client.consumer({ topics: [topic], untilEnd: true, maxWaitMs: 100, onOutOfRange: "error" });
    const timer = host.after(READ_MS, () => void consumer.close());
    try {
      for await (const batch of consumer.batches()) {
        const { topicId, partition } = batch;
        for (const { offset, value } of batch) {
          const place = { process: this.name, topic, topicId, partition, offset };
          host.record({ type: "mark read", ...place, mark: valueOf(value) });
          host.sometimes("mark read");
        }
      }
    } catch (thrown) {
      const error = asOttlaError(thrown);
      host.sometimes(`read of marks ended ${error.code}`);
      if (error.code === "UNKNOWN_SERVER_ERROR" || error.code === "CORRUPT_MESSAGE") host.fail(error);
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

const NAME_PREFIX = "quarrel-";
const NAMES_AT_ONCE = 3;
const NAMES_CHANGE_MS = 6000;

/** Which names are quarrelled about now. */
export class NamePool {
  readonly #nowMs: () => number;
  readonly #used: Set<string>;

  constructor(nowMs: () => number, used: Set<string>) {
    this.#nowMs = nowMs;
    this.#used = used;
  }

  /** Mostly one of now, sometimes one of before. */
  pick(rng: Rng): string {
    const now = Math.floor(this.#nowMs() / NAMES_CHANGE_MS);
    const epoch = now > 0 && rng.chance(0.2) ? now - 1 : now;
    const name = `${NAME_PREFIX}${epoch}-${rng.below(NAMES_AT_ONCE)}`;
    this.#used.add(name);
    return name;
  }

  /** The last ones, oldest first. */
  get recent(): readonly string[] {
    return [...this.#used].slice(-3 * NAMES_AT_ONCE);
  }

  /** Is it one of the workload's? */
  has(name: string): boolean {
    return name.startsWith(NAME_PREFIX);
  }
}
