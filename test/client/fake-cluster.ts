// Scripted brokers that share one metadata log: each knows it up to an end of its own, one of them may be the controller, and each
// misbehaves as a test says. Only metadata: no partition can be produced to.
import type { ErrorName } from "../../src/model/errors.ts";
import type { NodeId, TopicId, Uuid } from "../../src/model/ids.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import {
  API,
  type ApiKey,
  type ApiTypes,
  type MetadataResponse,
  type TopicMetadata,
} from "../../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
import type { DecodedRequest } from "../../src/wire/native/protocol.ts";
import type { World } from "./world.ts";

type Change =
  | { readonly kind: "create"; readonly name: string; readonly topicId: TopicId; readonly requestId: Uuid | null }
  | { readonly kind: "delete"; readonly name: string; readonly requestId: Uuid | null }
  | { readonly kind: "other"; readonly requestId: Uuid | null };

/** What becomes of a request: "drop" = it never arrives, "lose" = it is carried out and its answer is lost, "cut" = the same by a cut. */
export type Fate = "drop" | "lose" | "cut" | ErrorName | RowFate | undefined;
/** Carried out, but the answer's rows say this error. */
export interface RowFate {
  readonly rows: ErrorName;
}

const ID = (number: number, letter: string): Uuid => `${letter}${String(number).padStart(20, "A")}${"A"}` as Uuid;

export class FakeNode {
  readonly nodeId: NodeId;
  readonly address: string;
  readonly requests: DecodedRequest[] = [];
  readonly connections: MessageConnection[] = [];
  readonly #cluster: FakeCluster;
  /** How much of the log it knows; undefined = all. */
  knownEnd: number | undefined;
  /** Whom it takes for the controller; undefined = the one that is. */
  hint: number | undefined;
  onRequest: (request: DecodedRequest) => Fate = () => undefined;
  /** Speaks version 0 only, as the release before. */
  isOld = false;
  #listener: { close(): Promise<void> } | undefined;

  constructor(cluster: FakeCluster, nodeId: number) {
    this.#cluster = cluster;
    this.nodeId = nodeId as NodeId;
    this.address = `node-${nodeId}:7070`;
  }

  async listen(): Promise<void> {
    this.#listener = await this.#cluster.world.network.listen(this.address, (connection) => this.#serve(connection));
  }

  async kill(): Promise<void> {
    await this.#listener?.close();
    for (const connection of this.connections.splice(0)) connection.close("killed");
  }

  countOf(api: ApiKey): number {
    return this.requests.filter(({ header }) => header.api === api).length;
  }

  get end(): number {
    return this.knownEnd ?? this.#cluster.log.length;
  }

  #serve(connection: MessageConnection): void {
    this.connections.push(connection);
    const assembler = new RequestAssembler({ bodyBytesMax: 1_000_000 });
    connection.start({
      onReceive: (message) => {
        const assembled = assembler.push(message);
        if (assembled.kind === "message") this.#handle(connection, assembled.message);
      },
      onClose: () => {},
      onDrain: () => {},
    });
  }

  #handle(connection: MessageConnection, request: DecodedRequest): void {
    this.requests.push(request);
    const fate = this.onRequest(request);
    if (fate === "drop") return;
    const { api, version, correlationId } = request.header;
    const head = { api, version, correlationId, more: false, message: null } as const;
    if (typeof fate === "string" && fate !== "lose" && fate !== "cut") {
      return connection.send(encodeResponse({ ...head, error: fate }, null, []));
    }
    const answer = this.#cluster.answer(this, request);
    if (fate === "cut") connection.close("cut");
    if (typeof fate === "string") return;
    if (fate !== undefined)
      for (const row of (answer as { topics: { error: ErrorName }[] }).topics) row.error = fate.rows;
    if (typeof answer === "string") return connection.send(encodeResponse({ ...head, error: answer }, null, []));
    connection.send(encodeResponse({ ...head, error: "NONE" }, answer as never, []));
  }
}

export class FakeCluster {
  readonly world: World;
  readonly log: Change[] = [];
  readonly nodes: FakeNode[] = [];
  readonly clusterId = ID(1, "C");
  /** Of each change, the topic that it created. */
  readonly appliedIds = new Map<Uuid, TopicId | null>();
  /** Ids that it forgot as old ones. */
  forgetsIds = false;
  controllerId = 1;
  /** Changes to add between the pages of a list. */
  onPage: () => void = () => undefined;
  /** Address of a node at this end of the log, where it has moved. */
  addressAt: (nodeId: number, end: number) => string = (nodeId) => this.node(nodeId).address;
  metadataVersion = 1;
  voters = ["1:d1", "2:d2", "3:d3"];
  #topicCount = 0;

  constructor(world: World) {
    this.world = world;
  }

  static async start(world: World, count = 3): Promise<FakeCluster> {
    const cluster = new FakeCluster(world);
    for (let nodeId = 1; nodeId <= count; nodeId++) cluster.nodes.push(new FakeNode(cluster, nodeId));
    await Promise.all(cluster.nodes.map((node) => node.listen()));
    return cluster;
  }

  node(nodeId: number): FakeNode {
    return this.nodes[nodeId - 1] as FakeNode;
  }

  get addresses(): string[] {
    return this.nodes.map((node) => node.address);
  }

  /** As somebody else does it. */
  create(name: string, requestId: Uuid | null = null): TopicId {
    const topicId = ID(++this.#topicCount, "T") as TopicId;
    this.log.push({ kind: "create", name, topicId, requestId });
    return topicId;
  }

  remove(name: string, requestId: Uuid | null = null): void {
    this.log.push({ kind: "delete", name, requestId });
  }

  topicsAt(end: number): Map<string, TopicId> {
    const topics = new Map<string, TopicId>();
    for (const change of this.log.slice(0, end)) {
      if (change.kind === "create") topics.set(change.name, change.topicId);
      if (change.kind === "delete") topics.delete(change.name);
    }
    return topics;
  }

  /** How often somebody created it. */
  creationsOf(name: string): number {
    return this.log.filter((change) => change.kind === "create" && change.name === name).length;
  }

  answer(node: FakeNode, { header, request }: DecodedRequest): object | ErrorName {
    switch (header.api) {
      case API.HELLO:
        return this.#hello(node);
      case API.METADATA:
        return this.#metadata(node, request as ApiTypes[typeof API.METADATA]["request"]);
      case API.DESCRIBE_QUORUM:
        return this.#quorum(node);
      case API.DESCRIBE_CONFIGS:
        return this.#configs(node, request as ApiTypes[typeof API.DESCRIBE_CONFIGS]["request"]);
      case API.INIT_PRODUCER_ID:
        return { producerId: 1, producerEpoch: 0 };
      default:
        return node.nodeId === this.controllerId ? this.#change(header.api, request) : "NOT_CONTROLLER";
    }
  }

  #hello(node: FakeNode): ApiTypes[typeof API.HELLO]["response"] {
    const apis = SUPPORTED_VERSIONS.filter(({ key }) => !node.isOld || key <= API.DELETE_TOPICS).map((row) => ({
      ...row,
      maxVersion: node.isOld ? 0 : row.maxVersion,
    }));
    const sizes = { messageBytesMax: 1_000_000, inFlightBytesMax: 1_000_000 };
    return { clusterId: this.clusterId, nodeId: node.nodeId, brokerEpoch: 1, software: "fake", apis, ...sizes };
  }

  #metadata(node: FakeNode, request: ApiTypes[typeof API.METADATA]["request"]): MetadataResponse | ErrorName {
    if (request.barrier && node.nodeId !== this.controllerId) return "NOT_CONTROLLER";
    const end = request.barrier ? this.log.length : node.end;
    const topics = this.topicsAt(end);
    const names = (request.topics ?? [...topics.keys()]).toSorted().filter((name) => name > (request.after ?? ""));
    const page = names.slice(0, request.topics === null ? 2 : names.length);
    const answer = {
      clusterId: this.clusterId,
      controllerId: node.hint ?? this.controllerId,
      brokers: this.nodes.map(({ nodeId }) => ({ nodeId, address: this.addressAt(nodeId, end), isFenced: false })),
      topics: page.map((name) => topicRow(name, topics.get(name))),
      next: page.length < names.length ? (page.at(-1) ?? null) : null,
      metadataEnd: node.isOld ? -1 : end,
    };
    this.onPage();
    return answer;
  }

  readonly unregistered = new Set<number>();

  #change(api: ApiKey, request: unknown): object | ErrorName {
    const requestId = (request as { requestId?: Uuid | null }).requestId ?? null;
    const isKnown = requestId !== null && this.appliedIds.has(requestId) && !this.forgetsIds;
    if (requestId !== null && !isKnown) this.appliedIds.set(requestId, null);
    if (api === API.CREATE_TOPICS) {
      return this.#createTopics(request as ApiTypes[typeof API.CREATE_TOPICS]["request"], isKnown);
    }
    if (api === API.DELETE_TOPICS) {
      const { names } = request as ApiTypes[typeof API.DELETE_TOPICS]["request"];
      return { topics: names.map((name) => this.#deleteTopic(name, requestId, isKnown)) };
    }
    if (!isKnown) this.log.push({ kind: "other", requestId });
    if (api === API.ALTER_CONFIGS) return { metadataEnd: this.log.length };
    if (api === API.CHANGE_QUORUM) return this.#changeQuorum(request as ApiTypes[typeof API.CHANGE_QUORUM]["request"]);
    if (api === API.ELECT_LEADERS) return this.#elect(request as ApiTypes[typeof API.ELECT_LEADERS]["request"]);
    if (api === API.UNREGISTER_BROKER) {
      const { nodeId } = request as ApiTypes[typeof API.UNREGISTER_BROKER]["request"];
      if (this.unregistered.has(nodeId)) return "BROKER_ID_NOT_REGISTERED";
      this.unregistered.add(nodeId);
      return {};
    }
    const { version } = request as ApiTypes[typeof API.RAISE_METADATA_VERSION]["request"];
    if (version <= this.metadataVersion) return "INVALID_UPDATE_VERSION";
    this.metadataVersion = version;
    return {};
  }

  #elect({ topic, partitions }: ApiTypes[typeof API.ELECT_LEADERS]["request"]): object {
    const named = partitions?.map((partition) => ({
      topic,
      partition,
      error: "NONE",
      message: null,
      leader: 1,
      endOffset: -1,
    }));
    return { entries: named ?? [], omitted: named === undefined ? 1 : 0, metadataEnd: this.log.length };
  }

  #createTopics(request: ApiTypes[typeof API.CREATE_TOPICS]["request"], isKnown: boolean): object {
    const { requestId, validateOnly } = request;
    const topics = request.topics.map(({ name, partitions }) => {
      const present = this.topicsAt(this.log.length).get(name);
      const made = requestId === null ? null : (this.appliedIds.get(requestId) ?? null);
      if (isKnown)
        return {
          name,
          error: "NONE",
          message: null,
          topicId: made,
          partitions: made !== null && present === made ? 1 : -1,
        };
      if (present !== undefined)
        return { name, error: "TOPIC_ALREADY_EXISTS", message: `${name} exists`, topicId: null, partitions: 0 };
      const topicId = validateOnly ? null : this.create(name, requestId);
      if (requestId !== null) this.appliedIds.set(requestId, topicId);
      return { name, error: "NONE", message: null, topicId, partitions: Math.max(1, partitions) };
    });
    return { topics };
  }

  #deleteTopic(name: string, requestId: Uuid | null, isKnown: boolean): object {
    const isThere = this.topicsAt(this.log.length).has(name);
    if (!isKnown && !isThere) return { name, error: "UNKNOWN_TOPIC_OR_PARTITION", message: null };
    if (!isKnown) this.remove(name, requestId);
    return { name, error: "NONE", message: null };
  }

  #quorum(node: FakeNode): ApiTypes[typeof API.DESCRIBE_QUORUM]["response"] {
    const isLeader = node.nodeId === this.controllerId;
    return {
      clusterId: this.clusterId,
      nodeId: node.nodeId,
      role: isLeader ? "controller" : "follower",
      leaderId: node.hint ?? this.controllerId,
      term: 4,
      commitEnd: 100,
      appliedEnd: 100,
      metadataVersion: this.metadataVersion,
      versionsMin: 1,
      versionsMax: 2,
      voters: this.voters.map((replicaId, at) => ({
        replicaId,
        isLearner: false,
        end: isLeader ? 100 - at : -1,
        lagMs: isLeader ? at * 10 : -1,
        isRefused: false,
      })),
      reachable: [],
      waitingFor: this.controllerId < 0 ? "a quorum: 1 of 3 voters reachable" : null,
    };
  }

  #configs(
    node: FakeNode,
    request: ApiTypes[typeof API.DESCRIBE_CONFIGS]["request"],
  ): ApiTypes[typeof API.DESCRIBE_CONFIGS]["response"] | ErrorName {
    if (request.barrier && node.nodeId !== this.controllerId) return "NOT_CONTROLLER";
    if (request.resource === "broker" && request.name !== "" && request.name !== String(node.nodeId))
      return "INVALID_REQUEST";
    const row = { key: "answered.by", value: String(node.nodeId), source: "static", isReadOnly: true } as const;
    return { configs: [row], metadataEnd: node.end };
  }

  #changeQuorum({ op, nodeId }: ApiTypes[typeof API.CHANGE_QUORUM]["request"]): object | ErrorName {
    const present = this.voters.findIndex((voter) => voter.startsWith(`${nodeId}:`));
    if (op === "add" && present >= 0) return "DUPLICATE_VOTER";
    if (op === "add") this.voters.push(`${nodeId}:d${nodeId}`);
    if (op === "remove" && present < 0) return "VOTER_NOT_FOUND";
    if (op === "remove") this.voters.splice(present, 1);
    if (op === "transfer") this.controllerId = nodeId;
    return {};
  }
}

function topicRow(name: string, topicId: TopicId | undefined): TopicMetadata {
  const common = { name, isDeleting: false, maxMessageBytes: 1_000_000, configs: [] };
  if (topicId === undefined) {
    return { ...common, error: "UNKNOWN_TOPIC_OR_PARTITION", topicId: ID(0, "A") as TopicId, partitions: [] };
  }
  const replication = { replicas: [1], isr: [1], elr: [], partitionEpoch: 0, minIsr: 1, uncleanEpoch: -1 } as const;
  const partition = { index: 0, error: "NONE", leader: 1, leaderEpoch: 0, ...replication } as const;
  return { ...common, error: "NONE", topicId, partitions: [partition] };
}
