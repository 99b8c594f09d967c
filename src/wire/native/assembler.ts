// Received messages -> requests and answers, for bytes that nobody has vouched for: nothing in here throws because of what a
// peer sent, and nothing is allocated before the structural check has passed (D-24, D-25).
import { errorNameOf } from "../../model/errors.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { ApiKey } from "./apis.ts";
import { BodyCollector } from "./bodies.ts";
import { unpackPlain } from "./msgpack.ts";
import type { Plain } from "./msgpack.ts";
import type { Assembled, DecodedRequest, DecodedResponse } from "./protocol.ts";
import { FAULT, Trail } from "./schema.ts";
import { SCHEMAS } from "./schemas.ts";
import type { MessageSchema } from "./schemas.ts";
import { EnvelopeHead, StructureCheck } from "./structure.ts";

type Broken = Extract<Assembled<never>, { kind: "broken" }>;

interface Half<Message> {
  readonly message: Message;
  readonly collector: BodyCollector;
  readonly envelopeBytes: number;
  readonly correlationId: number;
}

/** Reads the fields of an envelope whose structure is sound. */
interface EnvelopeReader<Message> {
  readonly fields: number;
  readonly bodiesAt: number;
  schemaOf(api: ApiKey, version: number): MessageSchema<unknown> | undefined;
  /** The message, or why the fields are none. `bodies` are complete only later. */
  read(fields: readonly Plain[], schema: MessageSchema<unknown>, bodies: readonly Uint8Array[]): Message | string;
}

const INCOMPLETE: Assembled<never> = { kind: "incomplete" };
const UINT32_MAX = 0xffffffff;

class Assembler<Message> {
  readonly #reader: EnvelopeReader<Message>;
  readonly #bodyBytesMax: number;
  readonly #structure = new StructureCheck();
  readonly #head = new EnvelopeHead();
  #half: Half<Message> | undefined;
  #broken: Broken | undefined;

  constructor(reader: EnvelopeReader<Message>, bodyBytesMax: number) {
    this.#reader = reader;
    this.#bodyBytesMax = bodyBytesMax;
  }

  /** Bodies are announced and not here yet: the caller closes the connection after LIMITS.OWED_BODY_SILENCE_MS of silence. */
  get owesBodies(): boolean {
    return this.#half !== undefined;
  }

  protected get halfMessage(): Message | undefined {
    return this.#half?.message;
  }

  /** What has been announced and is not here. */
  get owedBytes(): number {
    return this.#half?.collector.owedTotalBytes ?? 0;
  }

  /** Length of the next message when that must be a body, else 0. */
  get nextBodyBytes(): number {
    return this.#half?.collector.nextOwedBytes ?? 0;
  }

  /** Takes the next message of the connection. Once broken it stays so. */
  push(message: Uint8Array): Assembled<Message> {
    if (this.#broken !== undefined) return this.#broken;
    return this.#half === undefined ? this.#envelope(message) : this.#body(this.#half, message);
  }

  #body(half: Half<Message>, message: Uint8Array): Assembled<Message> {
    const fault = half.collector.take(message);
    if (fault !== undefined) return this.#break("BODY_MISMATCH", fault, half.correlationId);
    return half.collector.owesBodies ? INCOMPLETE : this.#finish(half);
  }

  #finish(half: Half<Message>): Assembled<Message> {
    this.#half = undefined;
    return { kind: "message", message: half.message, sizeBytes: half.envelopeBytes + half.collector.totalBytes };
  }

  #envelope(bytes: Uint8Array): Assembled<Message> {
    const head = this.#head;
    if (!head.read(bytes)) return this.#break("BAD_ENVELOPE", "the message does not begin as an envelope", null);
    const { correlationId } = head;
    if (!(head.api in SCHEMAS)) return this.#break("UNKNOWN_API", `api ${head.api} does not exist`, correlationId);
    const schema = this.#reader.schemaOf(head.api as ApiKey, head.version);
    if (schema === undefined) return this.#break("UNSUPPORTED_VERSION", unsupported(head), correlationId);
    if (bytes.length > schema.bytesMax) {
      return this.#break(
        "FRAME_TOO_LARGE",
        `an envelope of ${bytes.length} bytes, at most ${schema.bytesMax}`,
        correlationId,
      );
    }
    const fault = this.#structure.check(bytes, schema.elementsMax);
    if (fault !== undefined) return this.#break("BAD_ENVELOPE", fault, correlationId);
    return this.#checked(bytes, schema);
  }

  #checked(bytes: Uint8Array, schema: MessageSchema<unknown>): Assembled<Message> {
    const { correlationId } = this.#head;
    const fields = unpackFields(bytes, this.#reader.fields);
    if (fields === undefined)
      return this.#break("BAD_ENVELOPE", `not an array of ${this.#reader.fields}`, correlationId);
    const collector = new BodyCollector();
    const bodyFault = collector.announce(fields[this.#reader.bodiesAt] as Plain, this.#bodyBytesMax);
    if (bodyFault !== undefined) return this.#break(bodyFault.error, bodyFault.reason, correlationId);
    const message = this.#reader.read(fields, schema, collector.bodies);
    if (typeof message === "string") return this.#break("BAD_ENVELOPE", message, correlationId);
    const half: Half<Message> = { message, collector, envelopeBytes: bytes.length, correlationId };
    if (!collector.owesBodies) return this.#finish(half);
    this.#half = half;
    return INCOMPLETE;
  }

  #break(error: ErrorName, reason: string, correlationId: number | null): Broken {
    this.#half = undefined;
    this.#broken = { kind: "broken", error, reason, correlationId };
    return this.#broken;
  }
}

function unsupported({ api, version }: EnvelopeHead): string {
  const { minVersion, versions } = SCHEMAS[api as ApiKey];
  return `version ${version} of api ${api}; this side speaks ${minVersion} to ${minVersion + versions.length - 1}`;
}

/** The bytes have passed the structural check, so `unpack` should not throw; if msgpackr disagrees, the peer loses. */
function unpackFields(bytes: Uint8Array, count: number): readonly Plain[] | undefined {
  try {
    const plain = unpackPlain(bytes);
    return Array.isArray(plain) && plain.length === count ? (plain as readonly Plain[]) : undefined;
  } catch {
    return undefined;
  }
}

/** The payload, checked; or the reason as text. */
function readPayload(
  plain: Plain,
  schema: MessageSchema<unknown>,
  bodies: readonly Uint8Array[],
): { readonly payload: unknown } | string {
  const trail = new Trail();
  const payload = schema.payload.decode(plain, trail);
  if (payload === FAULT) return `payload${trail.text()}`;
  return schema.bodiesFault(payload, bodies.length) ?? { payload };
}

const REQUESTS: EnvelopeReader<DecodedRequest> = {
  fields: 6,
  bodiesAt: 4,
  schemaOf: (api, version) =>
    SCHEMAS[api].versions[version - SCHEMAS[api].minVersion]?.request as MessageSchema<unknown> | undefined,
  read(fields, schema, bodies) {
    const [api, version, correlationId, deadlineMs, , plain] = fields;
    if (typeof deadlineMs !== "number" || deadlineMs < 0 || deadlineMs > UINT32_MAX)
      return "the deadline is not milliseconds of 32 bits";
    const read = readPayload(plain as Plain, schema, bodies);
    if (typeof read === "string") return read;
    // The schema of this api has made the payload, so the pair is one of the union.
    return {
      header: { api, version, correlationId, deadlineMs },
      request: read.payload,
      bodies,
    } as unknown as DecodedRequest;
  },
};

const RESPONSES: EnvelopeReader<DecodedResponse> = {
  fields: 8,
  bodiesAt: 6,
  schemaOf: (api, version) =>
    SCHEMAS[api].versions[version - SCHEMAS[api].minVersion]?.response as MessageSchema<unknown> | undefined,
  read(fields, schema, bodies) {
    const [api, version, correlationId, flags, code, text, , plain] = fields;
    if (typeof flags !== "number" || flags < 0 || flags > 1) return "unknown flags";
    if (typeof code !== "number" || code < 0 || code > 0xffff) return "the error is not a code";
    if (text !== null && (typeof text !== "string" || text.length > 1024)) return "the message is not a short text";
    const header = {
      api,
      version,
      correlationId,
      more: flags === 1,
      error: errorNameOf(code),
      message: text,
    } as DecodedResponse["header"];
    if (code !== 0)
      return plain === null && bodies.length === 0 ? { header, response: null, bodies } : "an error with a payload";
    const read = readPayload(plain as Plain, schema, bodies);
    return typeof read === "string" ? read : { header, response: read.payload, bodies };
  },
};

export interface AssemblerOptions {
  /** Most bytes of bodies in one logical message; checked on the announcement, before any is kept. */
  readonly bodyBytesMax: number;
}

/** The broker's side of one connection. */
export class RequestAssembler extends Assembler<DecodedRequest> {
  constructor({ bodyBytesMax }: AssemblerOptions) {
    super(REQUESTS, bodyBytesMax);
  }

  /** Of the message whose bodies are owed. */
  get owedApi(): ApiKey | undefined {
    return this.halfMessage?.header.api;
  }
}

/** The client's side of one connection. */
export class ResponseAssembler extends Assembler<DecodedResponse> {
  constructor({ bodyBytesMax }: AssemblerOptions) {
    super(RESPONSES, bodyBytesMax);
  }
}
