// One connection to one broker: Hello, then any number of requests in flight, matched by correlation id. It never reconnects;
// its owner does (client/broker-link.ts, the broker's links to its peers).
import { mutant } from "../base/mutant.ts";
import { asOttlaError, OttlaError, type ErrorName } from "../model/errors.ts";
import type { MessageConnection } from "../ports/transport.ts";
import { API, type ApiKey, type ApiTypes, type HelloResponse } from "../wire/native/apis.ts";
import { encodeRequest, ResponseAssembler, SUPPORTED_VERSIONS } from "../wire/native/codec.ts";
import type { DecodedResponse } from "../wire/native/protocol.ts";
import type { Alarm, Alarms } from "./alarms.ts";

/** Told what became of one request: any number of `onAnswer` with `isLast` false, then one with true or one `onFailure`. */
export interface AnswerHandler<K extends ApiKey> {
  onAnswer(response: ApiTypes[K]["response"], bodies: readonly Uint8Array[], isLast: boolean): void;
  /** `isFromBroker`: the broker answered with this error, or was never asked; otherwise nobody knows whether it did the work. */
  onFailure(error: OttlaError, isFromBroker: boolean): void;
}

export interface RequestCall<K extends ApiKey> {
  readonly request: ApiTypes[K]["request"];
  readonly bodies: readonly Uint8Array[];
  readonly timeoutMs: number;
  /** True: a timeout is only the end of this request. Else a peer that has said nothing meanwhile is cut off. */
  readonly isPatient?: boolean;
}

interface Pending {
  readonly api: ApiKey;
  readonly handler: AnswerHandler<ApiKey>;
  readonly alarm: Alarm;
}

/** Above this many bytes not yet taken by the operating system, produce waits. */
const UNSENT_BYTES_HIGH = 4 * 1024 * 1024;
/** Bound for one part of an answer; one batch may be as large as the largest `max.message.bytes`. */
const ANSWER_BODY_BYTES_MAX = 68 * 1024 * 1024;
const CORRELATION_IDS = 2 ** 32;
/** What the envelope holds. */
const DEADLINE_MS_MAX = 2 ** 32 - 1;
/** The reason of a stopping broker's close begins with this code. */
const ORDERED_STOP = "BROKER_NOT_AVAILABLE";

export interface ConnectionEvents {
  /** Once; every request in flight has been told before. */
  onClosed(error: OttlaError): void;
  onDrain(): void;
}

export class BrokerConnection {
  readonly openedMs: number;
  readonly #connection: MessageConnection;
  readonly #alarms: Alarms;
  readonly #events: ConnectionEvents;
  readonly #assembler = new ResponseAssembler({ bodyBytesMax: ANSWER_BODY_BYTES_MAX });
  readonly #pending = new Map<number, Pending>();
  readonly #versions = new Map<ApiKey, number>();
  #nextId = 0;
  #lastReceivedMs: number;
  #closed: OttlaError | undefined;
  #markGone: () => void = () => undefined;
  /** Resolves when the transport is done with the connection: what was handed over has been sent, or it was cut. */
  readonly #gone = new Promise<void>((resolve) => {
    this.#markGone = resolve;
  });

  /** Starts the connection: call it in the turn in which the transport handed it out. */
  constructor(connection: MessageConnection, options: { readonly alarms: Alarms; readonly events: ConnectionEvents }) {
    this.#connection = connection;
    this.#alarms = options.alarms;
    this.#events = options.events;
    this.openedMs = this.#lastReceivedMs = options.alarms.nowMs();
    connection.start({
      onReceive: (message) => this.#receive(message),
      onClose: (reason) => {
        this.#closedByPeer(reason);
        this.#markGone();
      },
      onDrain: () => options.events.onDrain(),
    });
  }

  /** Also while those are still told of it whom it owed an answer. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** True: hand over no more produce requests until `onDrain`, or until this reads false. */
  get isCongested(): boolean {
    return this.#connection.unsentBytes > UNSENT_BYTES_HIGH;
  }

  /** The first request. Learns which versions the broker speaks; the answer says who it is. */
  async hello(clientId: string, timeoutMs: number, software = "ottla-client"): Promise<HelloResponse> {
    const own = SUPPORTED_VERSIONS.find((row) => row.key === API.HELLO);
    this.#versions.set(API.HELLO, own?.maxVersion ?? 1);
    const answer = await this.call(API.HELLO, { clientId, software }, timeoutMs);
    // The end of the connection may have come right behind the answer: nobody may take it for an open one.
    if (this.#closed !== undefined) throw this.#closed;
    for (const row of SUPPORTED_VERSIONS) {
      const theirs = answer.apis.find((entry) => entry.key === row.key);
      if (theirs === undefined) continue;
      const version = Math.min(row.maxVersion, theirs.maxVersion);
      if (version >= Math.max(row.minVersion, theirs.minVersion)) this.#versions.set(row.key, version);
    }
    return answer;
  }

  /** The version that requests of this api have on this connection; undefined: the peer does not speak it. */
  versionOf(api: ApiKey): number | undefined {
    return this.#versions.get(api);
  }

  /** A request with one answer and no bodies. */
  call<K extends ApiKey>(
    api: K,
    request: ApiTypes[K]["request"],
    timeoutMs: number,
    how: { readonly isPatient?: boolean } = {},
  ): Promise<ApiTypes[K]["response"]> {
    return new Promise((resolve, reject) => {
      this.request(api, { request, bodies: [], timeoutMs, ...how }, { onAnswer: resolve, onFailure: reject });
    });
  }

  request<K extends ApiKey>(api: K, call: RequestCall<K>, handler: AnswerHandler<K>): void {
    const version = this.#versions.get(api);
    if (this.#closed !== undefined) return handler.onFailure(this.#closed, true);
    if (version === undefined) return handler.onFailure(unsupported(api, this.#connection.remote), true);
    const correlationId = this.#takeId();
    // Longer ones, to no end at all, are waited for here.
    const deadlineMs = Math.min(Math.ceil(call.timeoutMs), DEADLINE_MS_MAX);
    const header = { api, version, correlationId, deadlineMs };
    const messages = encoded(() => encodeRequest(header, call.request, call.bodies));
    if (messages instanceof OttlaError) return handler.onFailure(messages, true);
    const sentMs = this.#alarms.nowMs();
    const alarm = this.#alarms.after(
      call.timeoutMs,
      () => this.#timeOut(correlationId, call.isPatient === true ? -Infinity : sentMs),
      () => this.#abandon(correlationId),
    );
    if (alarm.isOver) return handler.onFailure(new OttlaError("CLOSED"), true);
    this.#pending.set(correlationId, { api, handler: handler as unknown as AnswerHandler<ApiKey>, alarm });
    this.#connection.send(messages);
  }

  /** A request that is never answered (produce with acks 0). Returns why it could not be handed over. */
  tell<K extends ApiKey>(
    api: K,
    request: ApiTypes[K]["request"],
    bodies: readonly Uint8Array[],
  ): OttlaError | undefined {
    const version = this.#versions.get(api);
    if (this.#closed !== undefined) return this.#closed;
    if (version === undefined) return unsupported(api, this.#connection.remote);
    const header = { api, version, correlationId: this.#takeId(), deadlineMs: 0 };
    const messages = encoded(() => encodeRequest(header, request, bodies));
    if (messages instanceof OttlaError) return messages;
    this.#connection.send(messages);
    return undefined;
  }

  /** Ordered: requests in flight fail with `error` at once; resolves when what was handed over is sent, soon at the latest. */
  close(error: OttlaError): Promise<void> {
    if (this.#closed === undefined) {
      this.#connection.close(error.message);
      this.#end(error);
    }
    return this.#gone;
  }

  /** Not the id of a request that timed out, whose answer may still come: not before 2^32 others. */
  #takeId(): number {
    if (mutant("M34")) this.#nextId = 0;
    do this.#nextId = (this.#nextId + 1) % CORRELATION_IDS;
    while (this.#pending.has(this.#nextId));
    return this.#nextId;
  }

  #receive(message: Uint8Array): void {
    if (this.#closed !== undefined) return;
    this.#lastReceivedMs = this.#alarms.nowMs();
    const assembled = this.#assembler.push(message);
    if (assembled.kind === "message") this.#answer(assembled.message);
    if (assembled.kind === "broken") this.#break(assembled.reason, assembled.error);
  }

  #answer({ header, response, bodies }: DecodedResponse): void {
    const pending = this.#pending.get(header.correlationId);
    // An answer that nobody waits for any more: its request timed out.
    if (pending === undefined) return;
    if (header.error === "NONE" && pending.api !== header.api) {
      return this.#break("an answer of another api than its request");
    }
    const isLast = !header.more || header.error !== "NONE";
    if (isLast) {
      this.#pending.delete(header.correlationId);
      pending.alarm.cancel();
    }
    if (header.error !== "NONE") {
      return pending.handler.onFailure(new OttlaError(header.error, header.message ?? undefined), true);
    }
    pending.handler.onAnswer(response as ApiTypes[ApiKey]["response"], bodies, isLast);
  }

  /** `sentMs`: a peer that has said nothing since is cut off. */
  #timeOut(correlationId: number, sentMs: number): void {
    const pending = this.#pending.get(correlationId);
    if (pending === undefined) return;
    this.#pending.delete(correlationId);
    const peer = this.#connection.remote;
    // Not one byte since: the other end may be gone without a word. A new connection finds out. Cut before anybody is told, who would send
    // the next request over it.
    if (this.#lastReceivedMs < sentMs && this.#closed === undefined) {
      this.#connection.destroy();
      this.#end(new OttlaError("CONNECTION_LOST", `${peer} is silent`));
    }
    pending.handler.onFailure(new OttlaError("REQUEST_TIMED_OUT", `${peer} did not answer in time`), false);
  }

  /** Whoever asked has closed: nobody is left to tell when its time is up. */
  #abandon(correlationId: number): void {
    const pending = this.#pending.get(correlationId);
    this.#pending.delete(correlationId);
    pending?.handler.onFailure(new OttlaError("CLOSED"), false);
  }

  #break(reason: string, error: ErrorName = "PROTOCOL_ERROR"): void {
    const fault = new OttlaError("PROTOCOL_ERROR", `${this.#connection.remote}: ${error}: ${reason}`);
    this.#connection.close(reason);
    this.#end(fault);
  }

  #closedByPeer(reason: string): void {
    const message = `${this.#connection.remote}: ${reason}`;
    // A broker that stops in order has answered all that it took in: what it did not answer it never looked at (docs/protocol.md).
    if (reason.startsWith(ORDERED_STOP)) this.#end(new OttlaError(ORDERED_STOP, message), true);
    else this.#end(new OttlaError("CONNECTION_LOST", message));
  }

  #end(error: OttlaError, isFromBroker = false): void {
    if (this.#closed !== undefined) return;
    this.#closed = error;
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { handler, alarm } of pending) {
      alarm.cancel();
      handler.onFailure(error, isFromBroker);
    }
    this.#events.onClosed(asOttlaError(error));
  }
}

/** What breaks the protocol's limits is refused before anything is sent. */
function encoded(encode: () => Uint8Array[]): Uint8Array[] | OttlaError {
  try {
    return encode();
  } catch (error) {
    if (error instanceof OttlaError) return error;
    throw error;
  }
}

function unsupported(api: ApiKey, remote: string): OttlaError {
  return new OttlaError("UNSUPPORTED_VERSION", `${remote} speaks no version of api ${api} that this client speaks`);
}
