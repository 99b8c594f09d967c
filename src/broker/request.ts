// One request from receipt to answer: its deadline, the bytes it holds on the accounts, and the one way to answer it.
import { assert } from "../base/assert.ts";
import { type ErrorName, OttlaError } from "../model/errors.ts";
import { API, type ApiKey, type ApiTypes } from "../wire/native/apis.ts";
import { encodeAnswer, encodeResponse, isOneWay } from "../wire/native/codec.ts";
import type { DecodedRequest, RequestHeader } from "../wire/native/protocol.ts";
import type { ClientConnection } from "./connection.ts";

/** Told once, when the request holds nothing any more. */
export interface RequestOwner {
  onDone(request: Request<ApiKey>, failure: ErrorName | undefined): void;
  /** Its answer broke the limits of the protocol; the request fails with this. */
  onUnencodable(request: Request<ApiKey>, error: OttlaError): void;
}

export class Request<K extends ApiKey> {
  readonly connection: ClientConnection;
  readonly header: RequestHeader & { readonly api: K };
  readonly body: ApiTypes[K]["request"];
  readonly sizeBytes: number;
  readonly receivedMs: number;
  #bodies: readonly Uint8Array[];
  #isDone = false;
  readonly #owner: RequestOwner;

  constructor(
    connection: ClientConnection,
    received: { readonly message: DecodedRequest; readonly sizeBytes: number; readonly receivedMs: number },
    owner: RequestOwner,
  ) {
    this.connection = connection;
    this.header = received.message.header as RequestHeader & { readonly api: K };
    this.body = received.message.request as ApiTypes[K]["request"];
    this.#bodies = received.message.bodies;
    this.sizeBytes = received.sizeBytes;
    this.receivedMs = received.receivedMs;
    this.#owner = owner;
  }

  /** True once answered, failed or given up. */
  get isDone(): boolean {
    return this.#isDone;
  }

  everyBody(holds: (body: Uint8Array) => boolean): boolean {
    return this.#bodies.every(holds);
  }

  /** Hands the bodies over: the request holds them no longer. */
  takeBodies(): readonly Uint8Array[] {
    const bodies = this.#bodies;
    this.#bodies = [];
    return bodies;
  }

  /** How long it may still wait: the header's deadline and the broker's bound, and `waitMs` where the request names one. */
  waitBudgetMs(boundMs: number, waitMs: number = boundMs): number {
    const { deadlineMs } = this.header;
    return Math.max(0, Math.min(boundMs, waitMs, deadlineMs === 0 ? boundMs : deadlineMs));
  }

  /** D-26: the client has given it up; work not yet begun for it is dropped. */
  isPastDeadline(nowMs: number): boolean {
    return this.header.deadlineMs > 0 && nowMs >= this.receivedMs + this.header.deadlineMs;
  }

  /** `onTaken`: as Connection.send has it, of the bodies. */
  respond(response: ApiTypes[K]["response"], bodies: readonly Uint8Array[] = [], onTaken?: () => void): void {
    if (this.#send(response, { bodies, more: false, onTaken })) this.#finish(undefined);
  }

  /** Answers with a payload that `encodePayload` has made. */
  respondEncoded(payload: Uint8Array): void {
    assert(!this.#isDone, "a request is answered once");
    const { api, version, correlationId } = this.header;
    this.connection.send(
      encodeAnswer({ api, version, correlationId, more: false, error: "NONE", message: null }, payload),
    );
    this.#finish(undefined);
  }

  /** A part of an answer of which more follows, unless the request is done after it. */
  respondPart(response: ApiTypes[K]["response"], bodies: readonly Uint8Array[], onTaken?: () => void): void {
    this.#send(response, { bodies, more: true, onTaken });
  }

  /** The request as a whole failed. */
  fail(error: ErrorName, message: string | null = null): void {
    if (this.#isDone) return;
    const { api, version, correlationId } = this.header;
    if (!this.#isUnanswered()) {
      this.connection.send(encodeResponse({ api, version, correlationId, more: false, error, message }, null, []));
    }
    this.#finish(error);
  }

  /** Ends without an answer: acks 0, or a connection that is gone. */
  drop(): void {
    this.#finish(undefined);
  }

  /** A produce with acks 0 and a one-way request never have an answer, not even this one. */
  #isUnanswered(): boolean {
    if (isOneWay(this.header.api)) return true;
    return this.header.api === API.PRODUCE && (this.body as ApiTypes[typeof API.PRODUCE]["request"]).acks === 0;
  }

  /** False: it could not be encoded, and the request has failed. */
  #send(
    response: ApiTypes[K]["response"],
    part: {
      readonly bodies: readonly Uint8Array[];
      readonly more: boolean;
      readonly onTaken: (() => void) | undefined;
    },
  ): boolean {
    const { bodies, more, onTaken } = part;
    assert(!this.#isDone, "a request is answered once");
    const { api, version, correlationId } = this.header;
    let messages: Uint8Array[];
    try {
      messages = encodeResponse({ api, version, correlationId, more, error: "NONE", message: null }, response, bodies);
    } catch (thrown) {
      if (!(thrown instanceof OttlaError)) throw thrown;
      this.#owner.onUnencodable(this as unknown as Request<ApiKey>, thrown);
      this.fail(thrown.code, thrown.message);
      return false;
    }
    this.connection.send(messages, onTaken);
    return true;
  }

  #finish(failure: ErrorName | undefined): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#bodies = [];
    this.#owner.onDone(this as unknown as Request<ApiKey>, failure);
  }
}
