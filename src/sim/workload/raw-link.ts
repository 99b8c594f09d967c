// The native protocol by hand: requests as bytes, answers by correlation id, and no care for what a good client would do.
import { OttlaError } from "../../model/errors.ts";
import type { MessageConnection } from "../../ports/transport.ts";
import { API, type ApiKey, type ApiTypes } from "../../wire/native/apis.ts";
import { encodeRequest, ResponseAssembler, SUPPORTED_VERSIONS } from "../../wire/native/codec.ts";
import type { DecodedResponse } from "../../wire/native/protocol.ts";
import type { SimNetwork } from "../network.ts";
import type { Incarnation, SimWorld } from "../world.ts";

const ANSWER_BYTES_MAX = 1 << 20;
const HELLO_MS = 1000;

export interface RawCall<K extends ApiKey> {
  readonly api: K;
  readonly request: ApiTypes[K]["request"];
  readonly bodies?: readonly Uint8Array[];
}

/** What came of a call. Undefined: nothing was heard in time, or the connection ended. */
export type RawAnswer<K extends ApiKey> = ApiTypes[K]["response"] | OttlaError | undefined;

export class RawLink {
  readonly #world: SimWorld;
  readonly #connection: MessageConnection;
  readonly #owner: Incarnation;
  readonly #assembler = new ResponseAssembler({ bodyBytesMax: ANSWER_BYTES_MAX });
  readonly #waiting = new Map<number, (answer: DecodedResponse | undefined) => void>();
  readonly #versions = new Map<ApiKey, number>();
  #nextId = 0;
  #isClosed = false;

  private constructor(world: SimWorld, connection: MessageConnection, owner: Incarnation) {
    this.#world = world;
    this.#connection = connection;
    this.#owner = owner;
    connection.start({
      onReceive: (message) => this.#receive(message),
      onClose: () => this.#end(),
      onDrain: () => undefined,
    });
  }

  /** Undefined: nobody is there. */
  static async open(
    address: string,
    { world, network, owner }: { readonly world: SimWorld; readonly network: SimNetwork; readonly owner: Incarnation },
  ): Promise<RawLink | undefined> {
    try {
      const link = new RawLink(world, await network.messages(owner).connect(address), owner);
      if (await link.#hello()) return link;
      link.drop();
    } catch {
      // Refused, or nothing was heard.
    }
    return undefined;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Of this broker's versions the highest that is known here. */
  async #hello(): Promise<boolean> {
    this.#versions.set(API.HELLO, SUPPORTED_VERSIONS.find(({ key }) => key === API.HELLO)?.maxVersion ?? 0);
    const answer = await this.call({ api: API.HELLO, request: { clientId: "bad", software: "by hand" } }, HELLO_MS);
    if (answer === undefined || answer instanceof OttlaError) return false;
    for (const { key, maxVersion } of SUPPORTED_VERSIONS) {
      const theirs = answer.apis.find((entry) => entry.key === key);
      if (theirs !== undefined) this.#versions.set(key, Math.min(maxVersion, theirs.maxVersion));
    }
    return true;
  }

  /** The messages of a request, to be sent as they are or not; undefined: the broker does not speak this api. */
  messagesOf<K extends ApiKey>(
    { api, request, bodies = [] }: RawCall<K>,
    waitMs: number,
  ): { readonly correlationId: number; readonly messages: Uint8Array[] } | undefined {
    const version = this.#versions.get(api);
    if (version === undefined) return undefined;
    const correlationId = this.#nextId++;
    const header = { api, version, correlationId, deadlineMs: Math.ceil(waitMs) };
    return { correlationId, messages: encodeRequest(header, request, bodies) };
  }

  send(messages: readonly Uint8Array[]): void {
    this.#connection.send(messages);
  }

  async call<K extends ApiKey>(call: RawCall<K>, waitMs: number): Promise<RawAnswer<K>> {
    const made = this.messagesOf(call, waitMs);
    if (made === undefined || this.#isClosed) return undefined;
    const answered = this.#answerTo(made.correlationId, waitMs);
    this.send(made.messages);
    const answer = await answered;
    if (answer === undefined) return undefined;
    const { header, response } = answer;
    return header.error === "NONE"
      ? (response as ApiTypes[K]["response"])
      : new OttlaError(header.error, header.message ?? undefined);
  }

  /** Not a word of farewell: the socket is left to itself. */
  drop(): void {
    this.#connection.destroy();
    this.#end();
  }

  #answerTo(correlationId: number, waitMs: number): Promise<DecodedResponse | undefined> {
    return new Promise((resolve) => {
      const alarm = this.#world.schedule({ delayMs: waitMs, kind: "raw wait", owner: this.#owner }, () => {
        this.#waiting.delete(correlationId);
        resolve(undefined);
      });
      this.#waiting.set(correlationId, (answer) => {
        alarm.cancel();
        this.#waiting.delete(correlationId);
        resolve(answer);
      });
    });
  }

  #receive(message: Uint8Array): void {
    const assembled = this.#assembler.push(message);
    if (assembled.kind === "broken") this.drop();
    if (assembled.kind === "message") this.#waiting.get(assembled.message.header.correlationId)?.(assembled.message);
  }

  #end(): void {
    this.#isClosed = true;
    for (const tell of [...this.#waiting.values()]) tell(undefined);
  }
}
