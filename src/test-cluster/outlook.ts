// What a test cluster waits for, seen through a client of its own: who leads, who is controller, whether all replicas are in sync.
import { aDuration, anInteger, aText, checkOptions, invalid } from "../client/options.ts";
import type { Client, CreateTopicOptions, MetadataView, PartitionInfo } from "../client/types.ts";
import { OttlaError } from "../model/errors.ts";
import { monoMs, setTimeout } from "../platform/host-time.ts";
import type { TestNode } from "./test-node.ts";
import type { WaitOptions } from "./types.ts";

const LOOK_EVERY_MS = 20;
/** For one look: a paused node never answers. */
const LOOK_TIMEOUT_MS = 1_000;
const WAIT_MS = 30_000;
/** Partitions that an error names. */
const NAMED_MAX = 5;

type Answer<T> = { readonly kind: "found"; readonly value: T } | { readonly kind: "wait"; readonly why: string };
const found = <T>(value: T): Answer<T> => ({ kind: "found", value });
const wait = (why: string): Answer<never> => ({ kind: "wait", why });

export class Outlook {
  readonly #nodes: readonly TestNode[];
  readonly #connect: () => Promise<Client>;
  #client: Promise<Client> | undefined;
  #isClosed = false;

  constructor(nodes: readonly TestNode[], connect: () => Promise<Client>) {
    this.#nodes = nodes;
    this.#connect = connect;
  }

  close(): void {
    this.#isClosed = true;
  }

  async createTopics(topics: Readonly<Record<string, CreateTopicOptions>>): Promise<void> {
    const names = Object.entries(topics);
    if (names.length === 0) return;
    const admin = (await this.#opened()).admin();
    await Promise.all(names.map(([name, options]) => admin.createTopic(name, { ifNotExists: true, ...options })));
  }

  async leaderOf(topic: string, partition: number, options: WaitOptions): Promise<number> {
    if (aText(topic) !== undefined) throw invalid("leaderOf: topic", "a text", topic);
    if (anInteger(0)(partition) !== undefined) throw invalid("leaderOf: partition", "an integer from 0 on", partition);
    const what = `a leader of ${topic} ${partition}`;
    return this.#until(what, options, [topic], ({ topics }) => {
      const of = topics.find(({ name }) => name === topic)?.partitions.find(({ index }) => index === partition);
      if (of === undefined) throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `there is no ${topic} ${partition}`);
      return this.#isRunning(of.leader) ? found(of.leader) : wait(absent("leader", of.leader));
    });
  }

  async controller(options: WaitOptions): Promise<number> {
    return this.#until("a controller", options, undefined, ({ controllerId }) =>
      this.#isRunning(controllerId) ? found(controllerId) : wait(absent("controller", controllerId)),
    );
  }

  async waitUntilInSync(options: WaitOptions): Promise<void> {
    await this.#until("all replicas in sync", options, undefined, ({ topics }) => {
      const down = this.#nodes.filter(({ state }) => state !== "running");
      if (down.length > 0) return wait(down.map(({ id, state }) => `node ${id} is ${state}`).join(", "));
      const lacking = topics.flatMap(({ name, partitions }) =>
        partitions.filter((partition) => !isWhole(partition)).map((partition) => described(name, partition)),
      );
      if (lacking.length === 0) return found(undefined);
      const more = lacking.length > NAMED_MAX ? ` and ${lacking.length - NAMED_MAX} more` : "";
      return wait(`${lacking.slice(0, NAMED_MAX).join("; ")}${more}`);
    });
  }

  async #until<T>(
    what: string,
    options: WaitOptions,
    topics: readonly string[] | undefined,
    look: (view: MetadataView) => Answer<T>,
  ): Promise<T> {
    checkOptions(what, options, { timeoutMs: aDuration() });
    const deadlineMs = monoMs() + (options.timeoutMs ?? WAIT_MS);
    for (let why = "no broker answered"; ; ) {
      if (this.#isClosed) throw new OttlaError("CLOSED", "the test cluster has been closed");
      const answer = await this.#look(topics, look);
      if (answer.kind === "found") return answer.value;
      why = answer.why;
      if (monoMs() >= deadlineMs) throw tooLong(`waited for ${what}: ${why}`);
      await new Promise<void>((resolve) => void setTimeout(resolve, LOOK_EVERY_MS));
    }
  }

  async #look<T>(topics: readonly string[] | undefined, look: (view: MetadataView) => Answer<T>): Promise<Answer<T>> {
    const running = this.#nodes.filter(({ state }) => state === "running");
    const first = running[0];
    if (first === undefined) return wait("no node is running");
    // Linearizable, so that a node that was paused does not tell of old times; without a majority there is nobody to ask but one.
    const from = running.length * 2 > this.#nodes.length ? "controller" : first.id;
    let view: MetadataView;
    try {
      const admin = (await this.#opened()).admin();
      view = await admin.describeMetadata({
        from,
        timeoutMs: LOOK_TIMEOUT_MS,
        ...(topics === undefined ? {} : { topics }),
      });
    } catch (thrown) {
      if (!(thrown instanceof OttlaError) || thrown.code === "INVALID_REQUEST") throw thrown;
      return wait(thrown.message);
    }
    return look(view);
  }

  async #opened(): Promise<Client> {
    this.#client ??= this.#connect();
    try {
      return await this.#client;
    } catch (thrown) {
      this.#client = undefined;
      throw thrown;
    }
  }

  #isRunning(nodeId: number): boolean {
    return this.#nodes.some(({ id, state }) => id === nodeId && state === "running");
  }
}

const tooLong = (message: string): OttlaError =>
  new OttlaError("REQUEST_TIMED_OUT", message, {
    hint: "timeoutMs says how long it waits; brokers shows each node's state",
  });

const isWhole = ({ leader, isr, replicas }: PartitionInfo): boolean => leader !== -1 && isr.length === replicas.length;

const absent = (what: string, nodeId: number): string =>
  nodeId < 0 ? `there is no ${what}` : `the last known ${what}, node ${nodeId}, is not running`;

const described = (topic: string, { index, leader, isr, replicas }: PartitionInfo): string =>
  leader === -1 ? `${topic} ${index} has no leader` : `${topic} ${index} has ${isr.join(",")} of ${replicas.join(",")}`;
