// From a request to its handler: the handshake rule, what a starting or stopping broker says, and what becomes of an exception.
import { AssertionFailure } from "../base/assert.ts";
import { asOttlaError, type ErrorName, OttlaError } from "../model/errors.ts";
import { isNumbered } from "../model/record-batch.ts";
import { API, type ApiKey } from "../wire/native/apis.ts";
import type { DecodedRequest } from "../wire/native/protocol.ts";
import type { ClientConnection } from "./connection.ts";
import { handleHello } from "./handlers/01-hello.ts";
import { handleMetadata } from "./handlers/02-metadata.ts";
import { handleProduce } from "./handlers/03-produce.ts";
import { handleFetch } from "./handlers/04-fetch.ts";
import { handleListOffsets } from "./handlers/05-list-offsets.ts";
import { handleCreateTopics } from "./handlers/06-create-topics.ts";
import { handleDeleteTopics } from "./handlers/07-delete-topics.ts";
import { handleAlterConfigs } from "./handlers/08-alter-configs.ts";
import { handleDescribeConfigs } from "./handlers/09-describe-configs.ts";
import { handleDeleteRecords } from "./handlers/10-delete-records.ts";
import { handleRaft } from "./handlers/32-raft.ts";
import { handleVoterHello } from "./handlers/33-voter-hello.ts";
import { handleAdopt } from "./handlers/34-adopt.ts";
import { handleRegisterBroker } from "./handlers/35-register-broker.ts";
import { handleBrokerHeartbeat } from "./handlers/36-broker-heartbeat.ts";
import { handleFetchMetadata } from "./handlers/37-fetch-metadata.ts";
import { handleDescribeQuorum } from "./handlers/38-describe-quorum.ts";
import { handleChangeQuorum } from "./handlers/39-change-quorum.ts";
import { handleRaiseMetadataVersion } from "./handlers/40-raise-metadata-version.ts";
import { handleUnregisterBroker } from "./handlers/41-unregister-broker.ts";
import { handleAlterPartition } from "./handlers/42-alter-partition.ts";
import { handleReplicaFetch } from "./handlers/43-replica-fetch.ts";
import { handleDurableReport } from "./handlers/44-durable-report.ts";
import { handleElectLeaders } from "./handlers/45-elect-leaders.ts";
import { handleDescribePartitions } from "./handlers/46-describe-partitions.ts";
import { handleInitProducerId } from "./handlers/47-init-producer-id.ts";
import { handleAllocateProducerIds } from "./handlers/48-allocate-producer-ids.ts";
import { API_NAMES } from "./metrics.ts";
import { Request, type RequestOwner } from "./request.ts";
import type { NodeServices, Services } from "./services.ts";

type Handling = void | Promise<void>;
type Handler<K extends ApiKey> =
  /** From the moment the port listens until the end: a stopping broker's quorum works to its last. */
  | { readonly stage: "listening"; readonly handle: (node: NodeServices, request: Request<K>) => Handling }
  | { readonly stage: "running"; readonly handle: (services: Services, request: Request<K>) => Handling };

const early = <K extends ApiKey>(handle: (node: NodeServices, request: Request<K>) => Handling): Handler<K> => ({
  stage: "listening",
  handle,
});
const running = <K extends ApiKey>(handle: (services: Services, request: Request<K>) => Handling): Handler<K> => ({
  stage: "running",
  handle,
});

const HANDLERS: { readonly [K in ApiKey]: Handler<K> } = {
  [API.HELLO]: early(handleHello),
  [API.METADATA]: running(handleMetadata),
  [API.PRODUCE]: running(handleProduce),
  [API.FETCH]: running(handleFetch),
  [API.LIST_OFFSETS]: running(handleListOffsets),
  [API.CREATE_TOPICS]: running(handleCreateTopics),
  [API.DELETE_TOPICS]: running(handleDeleteTopics),
  [API.ALTER_CONFIGS]: running(handleAlterConfigs),
  [API.DESCRIBE_CONFIGS]: running(handleDescribeConfigs),
  [API.DELETE_RECORDS]: running(handleDeleteRecords),
  [API.RAFT]: early(handleRaft),
  [API.VOTER_HELLO]: early(handleVoterHello),
  [API.ADOPT]: early(handleAdopt),
  [API.REGISTER_BROKER]: early(handleRegisterBroker),
  [API.BROKER_HEARTBEAT]: early(handleBrokerHeartbeat),
  [API.FETCH_METADATA]: early(handleFetchMetadata),
  [API.DESCRIBE_QUORUM]: early(handleDescribeQuorum),
  [API.CHANGE_QUORUM]: early(handleChangeQuorum),
  [API.RAISE_METADATA_VERSION]: early(handleRaiseMetadataVersion),
  [API.UNREGISTER_BROKER]: early(handleUnregisterBroker),
  [API.ALTER_PARTITION]: early(handleAlterPartition),
  [API.REPLICA_FETCH]: running(handleReplicaFetch),
  [API.DURABLE_REPORT]: running(handleDurableReport),
  [API.ELECT_LEADERS]: early(handleElectLeaders),
  [API.DESCRIBE_PARTITIONS]: running(handleDescribePartitions),
  [API.INIT_PRODUCER_ID]: running(handleInitProducerId),
  [API.ALLOCATE_PRODUCER_IDS]: early(handleAllocateProducerIds),
};

/**
 * `draining`: nothing new is appended that a client may not send again, but what was is waited for, and read. Numbered batches go on until another
 * broker leads: whatever becomes of them here, the new leader knows which it has. `stopping`: only the quorum's work goes on.
 */
export type Phase = "open" | "draining" | "stopping";

export class Dispatcher implements RequestOwner {
  readonly #node: NodeServices;
  /** A defect was met: the process must stop. */
  readonly #onDefect: (defect: unknown) => void;
  /** Set while the broker runs; the apis of a running broker are refused without. */
  services: Services | undefined;
  phase: Phase = "open";
  /** Requests not done. */
  inFlightCount = 0;

  constructor(node: NodeServices, onDefect: (defect: unknown) => void) {
    this.#node = node;
    this.#onDefect = onDefect;
  }

  dispatch(connection: ClientConnection, message: DecodedRequest, sizeBytes: number): void {
    const { api, correlationId } = message.header;
    if (connection.clientId === undefined && api !== API.HELLO) {
      connection.release(message.header, sizeBytes);
      const reason = `the first request was ${API_NAMES[api]}, not hello`;
      connection.refuse({ error: "HANDSHAKE_REQUIRED", reason, correlationId });
      return;
    }
    const receivedMs = this.#node.clock.monoMs();
    this.inFlightCount++;
    this.#handle(api, new Request<ApiKey>(connection, { message, sizeBytes, receivedMs }, this));
  }

  onDone(request: Request<ApiKey>, failure: ErrorName | undefined): void {
    const { metrics, clock } = this.#node;
    this.inFlightCount--;
    metrics.answered(request.header.api, clock.monoMs() - request.receivedMs, failure !== undefined);
    request.connection.release(request.header, request.sizeBytes);
  }

  onUnencodable(request: Request<ApiKey>, error: OttlaError): void {
    this.#node.logger.error("answer_not_encodable", { api: API_NAMES[request.header.api], message: error.message });
  }

  #handle(api: ApiKey, request: Request<ApiKey>): void {
    try {
      const working = this.#begin(api, request);
      if (working instanceof Promise) working.catch((thrown: unknown) => this.#failed(request, thrown));
    } catch (thrown) {
      this.#failed(request, thrown);
    }
  }

  #begin(api: ApiKey, request: Request<ApiKey>): Handling {
    // The schema of this api has made the request, so the pair fits.
    const handler = HANDLERS[api] as Handler<ApiKey>;
    if (handler.stage === "listening") return handler.handle(this.#node, request);
    const { services } = this;
    if (services !== undefined && this.#isServed(api, request)) return handler.handle(services, request);
    const isStopping = this.phase !== "open";
    const waitingFor = isStopping ? null : this.#node.waitingFor();
    const why = waitingFor === null ? "" : `: ${waitingFor}`;
    request.fail("BROKER_NOT_AVAILABLE", isStopping ? "the broker is stopping" : `the broker is starting${why}`);
  }

  #isServed(api: ApiKey, request: Request<ApiKey>): boolean {
    if (this.phase !== "draining") return this.phase === "open";
    return api === API.PRODUCE ? request.everyBody(isNumbered) : api !== API.CREATE_TOPICS;
  }

  /** A coded error is the answer; anything else ends one request in UNKNOWN_SERVER_ERROR; a broken invariant ends the process. */
  #failed(request: Request<ApiKey>, thrown: unknown): void {
    if (thrown instanceof AssertionFailure) return this.#onDefect(thrown);
    const error = asOttlaError(thrown);
    const { api } = request.header;
    const isExpected = thrown instanceof OttlaError && error.code !== "UNKNOWN_SERVER_ERROR";
    if (!isExpected) this.#node.logger.error("request_failed", { api: API_NAMES[api], code: error.code, err: thrown });
    // What ends a broker's own calls when it stops is no word for others.
    request.fail(error.code === "CLOSED" ? "BROKER_NOT_AVAILABLE" : error.code, error.message);
  }
}
