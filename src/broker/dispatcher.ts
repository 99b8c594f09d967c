// From a request to its handler: the handshake rule, what a stopping broker says, and what becomes of an exception.
import { AssertionFailure } from "../base/assert.ts";
import { asOttlaError, type ErrorName } from "../model/errors.ts";
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
import { API_NAMES } from "./metrics.ts";
import { Request, type RequestOwner } from "./request.ts";
import type { Services } from "./services.ts";

type Handler<K extends ApiKey> = (services: Services, request: Request<K>) => void | Promise<void>;

function refuse(_services: Services, request: Request<ApiKey>): void {
  request.fail("UNSUPPORTED_VERSION", "this broker does not serve it yet");
}

const HANDLERS: { readonly [K in ApiKey]: Handler<K> } = {
  [API.HELLO]: handleHello,
  [API.METADATA]: handleMetadata,
  [API.PRODUCE]: handleProduce,
  [API.FETCH]: handleFetch,
  [API.LIST_OFFSETS]: handleListOffsets,
  [API.CREATE_TOPICS]: handleCreateTopics,
  [API.DELETE_TOPICS]: handleDeleteTopics,
  [API.ALTER_CONFIGS]: refuse,
  [API.DESCRIBE_CONFIGS]: refuse,
  [API.RAFT]: refuse,
  [API.VOTER_HELLO]: refuse,
  [API.ADOPT]: refuse,
  [API.REGISTER_BROKER]: refuse,
  [API.BROKER_HEARTBEAT]: refuse,
  [API.FETCH_METADATA]: refuse,
  [API.DESCRIBE_QUORUM]: refuse,
  [API.CHANGE_QUORUM]: refuse,
  [API.RAISE_METADATA_VERSION]: refuse,
};

export class Dispatcher implements RequestOwner {
  readonly #services: Services;
  /** A defect was met: the process must stop. */
  readonly #onDefect: (defect: unknown) => void;
  /** False while stopping: every request but Hello is refused. */
  isServing = true;
  /** Requests not done. */
  inFlightCount = 0;

  constructor(services: Services, onDefect: (defect: unknown) => void) {
    this.#services = services;
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
    const receivedMs = this.#services.clock.monoMs();
    this.inFlightCount++;
    const request = new Request<ApiKey>(connection, { message, sizeBytes, receivedMs }, this);
    if (!this.isServing) request.fail("BROKER_NOT_AVAILABLE", "the broker is stopping");
    else this.#handle(api, request);
  }

  onDone(request: Request<ApiKey>, failure: ErrorName | undefined): void {
    const { metrics, clock } = this.#services;
    this.inFlightCount--;
    metrics.answered(request.header.api, clock.monoMs() - request.receivedMs, failure !== undefined);
    request.connection.release(request.header, request.sizeBytes);
  }

  #handle(api: ApiKey, request: Request<ApiKey>): void {
    try {
      // The schema of this api has made the request, so the pair fits.
      const working = (HANDLERS[api] as Handler<ApiKey>)(this.#services, request);
      if (working instanceof Promise) working.catch((thrown: unknown) => this.#failed(request, thrown));
    } catch (thrown) {
      this.#failed(request, thrown);
    }
  }

  /** One request meets its end in UNKNOWN_SERVER_ERROR; a broken invariant is the end of the process. */
  #failed(request: Request<ApiKey>, thrown: unknown): void {
    if (thrown instanceof AssertionFailure) return this.#onDefect(thrown);
    const error = asOttlaError(thrown);
    const { api } = request.header;
    this.#services.logger.error("request_failed", { api: API_NAMES[api], code: error.code, err: thrown });
    request.fail(error.code, error.message);
  }
}
