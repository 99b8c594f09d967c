// One node asked directly: by plain HTTP whether it serves, by the native protocol what it knows. Never asks anybody else instead.
import { OttlaError } from "../../model/errors.ts";
import type { Alarms } from "../../link/alarms.ts";
import { BrokerConnection } from "../../link/broker-connection.ts";
import type { MessageTransport } from "../../ports/transport.ts";
import { API, type HelloResponse, type MetadataResponse, type TopicMetadata } from "../../wire/native/apis.ts";
import type { DescribeQuorumResponse } from "../../wire/native/quorum-apis.ts";
import type { Readiness } from "./observation.ts";
import { askReadiness } from "./readiness.ts";

/** Pages of metadata; each holds up to 1 MiB (D-38). */
const PAGES_MAX = 1000;

export interface LinkDeps {
  readonly transport: MessageTransport;
  readonly alarms: Alarms;
}

export interface LookOptions {
  /** For each question to each node. */
  readonly timeoutMs: number;
  /** False: leave the topics out, which may be many. */
  readonly withTopics: boolean;
}

export class NodeLink {
  /** host:port. */
  readonly address: string;
  readonly #deps: LinkDeps;
  #connection: BrokerConnection | undefined;
  /** The one attempt under way. */
  #opening: Promise<BrokerConnection> | undefined;
  #hello: HelloResponse | undefined;
  #isClosed = false;

  constructor(address: string, deps: LinkDeps) {
    this.address = address;
    this.#deps = deps;
  }

  /** Who it said it is, on the connection now. */
  get nodeId(): number | undefined {
    return this.#hello?.nodeId;
  }

  async describeQuorum(timeoutMs: number): Promise<DescribeQuorumResponse> {
    const connection = await this.#open(timeoutMs);
    return await connection.call(API.DESCRIBE_QUORUM, {}, timeoutMs);
  }

  /** All topics, given page by page; resolves to the rest of the answer. */
  async metadata(
    { timeoutMs, withTopics }: LookOptions,
    onTopic: (topic: TopicMetadata) => void,
  ): Promise<MetadataResponse> {
    const connection = await this.#open(timeoutMs);
    let after: string | null = null;
    for (let page = 0; page < PAGES_MAX; page++) {
      const request = { topics: withTopics ? null : [], after, barrier: false };
      const answer: MetadataResponse = await connection.call(API.METADATA, request, timeoutMs);
      answer.topics.forEach(onTopic);
      if (answer.next === null) return answer;
      after = answer.next;
    }
    throw new OttlaError("PROTOCOL_ERROR", `${this.address}: metadata without an end`);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#connection?.close(new OttlaError("CLOSED"));
  }

  #open(timeoutMs: number): Promise<BrokerConnection> {
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    this.#opening ??= this.#dial(timeoutMs).finally(() => {
      this.#opening = undefined;
    });
    const silent = () => new OttlaError("REQUEST_TIMED_OUT", `${this.address}: silent`);
    return this.#deps.alarms.within(this.#opening, timeoutMs, silent);
  }

  async #dial(timeoutMs: number): Promise<BrokerConnection> {
    const raw = await this.#deps.transport.connect(this.address);
    const events = {
      onClosed: () => {
        this.#connection = undefined;
      },
      onDrain: () => undefined,
    };
    const connection = new BrokerConnection(raw, { alarms: this.#deps.alarms, events });
    try {
      if (this.#isClosed) throw new OttlaError("CLOSED");
      this.#hello = await connection.hello("ottla-cli", timeoutMs, "ottla-cli");
      this.#connection = connection;
      return connection;
    } catch (thrown) {
      void connection.close(new OttlaError("CLOSED"));
      throw thrown;
    }
  }

  /** Undefined: no answer. */
  readiness(timeoutMs: number): Promise<Readiness | undefined> {
    return askReadiness(this.address, timeoutMs);
  }
}
