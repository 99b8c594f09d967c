// Requests and answers <-> messages of the native protocol (docs/protocol.md). An envelope is a fixed MessagePack array:
//   request  [apiKey, version, correlationId, deadlineMs, bodies, payload]
//   answer   [apiKey, version, correlationId, flags, errorCode, message, bodies, payload]
import { assert } from "../../base/assert.ts";
import { concatBytes } from "../../base/bytes.ts";
import { ERRORS, OttlaError } from "../../model/errors.ts";
import type { ErrorName } from "../../model/errors.ts";
import { API } from "./apis.ts";
import type { ApiKey, ApiTypes, MetadataResponse, TopicMetadata } from "./apis.ts";
import { planBodies } from "./bodies.ts";
import { packPlain } from "./msgpack.ts";
import type { PlainOut } from "./msgpack.ts";
import { LIMITS } from "./protocol.ts";
import type { RequestHeader, ResponseHeader } from "./protocol.ts";
import { FAULT, Trail, note } from "./schema.ts";
import { FIELD_LIMITS, SCHEMAS } from "./schemas.ts";
import type { MessageSchema } from "./schemas.ts";

export { RequestAssembler, ResponseAssembler } from "./assembler.ts";
export { splitBodies } from "./bodies.ts";
export type { IndexRange } from "./bodies.ts";
export { FIELD_LIMITS, SUPPORTED_VERSIONS } from "./schemas.ts";
export type { VersionRange } from "./schemas.ts";

/** Bit 0 of an answer's flags: another part follows. */
export const FLAG_MORE = 1;

const headerNote = note(FIELD_LIMITS.TEXT);

/**
 * The messages to hand to one `send`. Throws OttlaError INVALID_REQUEST when the caller's values break the limits of the
 * protocol (a name too long, too many topics at once): nothing has been sent then.
 */
export function encodeRequest<K extends ApiKey>(
  header: RequestHeader & { readonly api: K },
  request: ApiTypes[K]["request"],
  bodies: readonly Uint8Array[],
): Uint8Array[] {
  const { minVersion, versions } = SCHEMAS[header.api];
  const version = versions[header.version - minVersion];
  assert(version !== undefined, `version ${header.version} of api ${header.api} is not ours`);
  assertHeader(header.correlationId, header.deadlineMs);
  const schema: MessageSchema<ApiTypes[K]["request"]> = version.request;
  const fault = bodyBytesFault(bodies) ?? schema.bodiesFault(request, bodies.length);
  if (fault !== undefined) throw new OttlaError("INVALID_REQUEST", fault);
  const versionFault = schema.versionFault(request);
  if (versionFault !== undefined) throw new OttlaError("UNSUPPORTED_VERSION", versionFault);
  const trail = new Trail();
  const payload = schema.payload.encode(request, trail);
  if (payload === FAULT) throw new OttlaError("INVALID_REQUEST", `request${trail.text()}`);
  const { announcement, following } = planBodies(bodies);
  const envelope = packPlain([
    header.api,
    header.version,
    header.correlationId,
    header.deadlineMs,
    announcement,
    payload,
  ]);
  if (envelope.length > schema.bytesMax)
    throw new OttlaError("INVALID_REQUEST", `the request is longer than ${schema.bytesMax} bytes`);
  return following.length === 0 ? [envelope] : [envelope, ...following];
}

/**
 * The messages to hand to one `send`. `response` is null exactly when the header carries an error. Throws OttlaError UNKNOWN_SERVER_ERROR
 * when the values break the limits of the protocol: nothing has been sent then, and that request alone fails.
 */
export function encodeResponse<K extends ApiKey>(
  header: ResponseHeader & { readonly api: K },
  response: ApiTypes[K]["response"] | null,
  bodies: readonly Uint8Array[],
): Uint8Array[] {
  const { minVersion, versions } = SCHEMAS[header.api];
  const version = versions[header.version - minVersion];
  assert(version !== undefined, `version ${header.version} of api ${header.api} is not ours`);
  assertHeader(header.correlationId, 0);
  assert((response === null) === (header.error !== "NONE"), "an answer has either an error or a payload");
  const schema: MessageSchema<ApiTypes[K]["response"]> = version.response;
  const fault = bodyBytesFault(bodies) ?? (response === null ? undefined : schema.bodiesFault(response, bodies.length));
  if (fault !== undefined) throw unencodable(header.api, fault);
  const trail = new Trail();
  const payload = response === null ? null : schema.payload.encode(response, trail);
  if (payload === FAULT) throw unencodable(header.api, trail.text());
  const { announcement, following } = planBodies(bodies);
  const envelope = packResponse(header, announcement, payload);
  const fitting =
    envelope.length <= schema.bytesMax
      ? envelope
      : packResponse(header, announcement, withoutNotes(header.api, payload));
  if (fitting.length > schema.bytesMax) throw unencodable(header.api, `it takes ${fitting.length} bytes`);
  return following.length === 0 ? [fitting] : [fitting, ...following];
}

/** The payload of a successful answer without bodies, to be used for several requests. Throws as encodeResponse does. */
export function encodePayload<K extends ApiKey>(
  { api, version }: Pick<ResponseHeader, "version"> & { readonly api: K },
  response: ApiTypes[K]["response"],
): Uint8Array {
  const { minVersion, versions } = SCHEMAS[api];
  const layout = versions[version - minVersion];
  assert(layout !== undefined, `version ${version} of api ${api} is not ours`);
  const schema: MessageSchema<ApiTypes[K]["response"]> = layout.response;
  const trail = new Trail();
  const payload = schema.payload.encode(response, trail);
  if (payload === FAULT) throw unencodable(api, trail.text());
  const packed = packPlain(payload);
  if (packed.length + HEAD_BYTES_MAX > schema.bytesMax) throw unencodable(api, `it takes ${packed.length} bytes`);
  return packed;
}

/** What the state holds is beyond what an answer can: whoever let that in is at fault, not what else this process does. */
function unencodable(api: ApiKey, why: string): OttlaError {
  return new OttlaError(
    "UNKNOWN_SERVER_ERROR",
    `the answer of api ${api} cannot be encoded: ${why.replace(/^\./, "")}`,
  );
}

/** Fields before a payload, without text. */
const HEAD_BYTES_MAX = 32;
const ARRAY_OF_8 = 0x98;

/** An answer whose payload is encoded already. */
export function encodeAnswer(header: ResponseHeader, payload: Uint8Array): Uint8Array[] {
  assertHeader(header.correlationId, 0);
  const { api, version, correlationId, more, error, message } = header;
  const head = packPlain([api, version, correlationId, more ? FLAG_MORE : 0, ERRORS[error].code, message, []]);
  const envelope = concatBytes([head, payload]);
  envelope[0] = ARRAY_OF_8;
  return [envelope];
}

/** Requests of this api are never answered, not even with an error. */
export function isOneWay(api: ApiKey): boolean {
  return SCHEMAS[api].isOneWay === true;
}

/** What to send, before closing, to a peer whose message an assembler found broken; null when its request cannot be named. */
export function encodeRefusal(broken: {
  readonly correlationId: number | null;
  readonly error: ErrorName;
  readonly reason: string;
}): Uint8Array[] | null {
  const { correlationId, error, reason } = broken;
  if (correlationId === null) return null;
  return encodeResponse({ api: API.HELLO, version: 0, correlationId, more: false, error, message: reason }, null, []);
}

function packResponse(header: ResponseHeader, announcement: readonly PlainOut[], payload: PlainOut): Uint8Array {
  const message = header.message === null ? null : (headerNote.encode(header.message, new Trail()) as string);
  const flags = header.more ? FLAG_MORE : 0;
  return packPlain([
    header.api,
    header.version,
    header.correlationId,
    flags,
    ERRORS[header.error].code,
    message,
    announcement,
    payload,
  ]);
}

/** Position of the field `message` in the rows of the answers that have one. */
const NOTE_POSITION: Partial<Record<ApiKey, number>> = {
  [API.PRODUCE]: 4,
  [API.CREATE_TOPICS]: 2,
  [API.DELETE_TOPICS]: 2,
  [API.ELECT_LEADERS]: 3,
};

/** Many long messages for people may not fit; the codes say what the program needs. */
function withoutNotes(api: ApiKey, payload: PlainOut): PlainOut {
  const position = NOTE_POSITION[api];
  if (position === undefined || !Array.isArray(payload)) return payload;
  const [first, ...others] = payload as readonly PlainOut[];
  const rows = first as readonly (readonly PlainOut[])[];
  return [rows.map((row) => row.with(position, null)), ...others];
}

function assertHeader(correlationId: number, deadlineMs: number): void {
  assert(
    Number.isInteger(correlationId) && correlationId >= 0 && correlationId <= 0xffffffff,
    `correlation id ${correlationId}`,
  );
  assert(Number.isInteger(deadlineMs) && deadlineMs >= 0 && deadlineMs <= 0xffffffff, `deadline ${deadlineMs} ms`);
}

function bodyBytesFault(bodies: readonly Uint8Array[]): string | undefined {
  if (bodies.length <= 1) return undefined;
  if (bodies.length > LIMITS.BODIES) return `more than ${LIMITS.BODIES} bodies`;
  let totalBytes = 0;
  for (const body of bodies) totalBytes += body.length;
  const max = LIMITS.LOGICAL_MESSAGE_BODY_BYTES;
  return totalBytes <= max
    ? undefined
    : `bodies of ${totalBytes} bytes together, at most ${max} or a single one (D-24)`;
}

/** Worst case of a field, for pages of metadata: an int32 takes 5 bytes, an array or text 5 in front. */
const WORST_INT_BYTES = 5;
const PAGE_RESERVE_BYTES = 64 * 1024;

/**
 * How many of the topics, from the first, fit into one metadata answer beside the brokers: at least 1 if there is one. The
 * rest belongs to the next page (`next` = name of the last that fits). `bytesMax`: for a shorter page.
 */
export function topicsOfOnePage(
  topics: readonly TopicMetadata[],
  brokers: MetadataResponse["brokers"],
  bytesMax: number = LIMITS.METADATA_ANSWER_BYTES - PAGE_RESERVE_BYTES,
): number {
  let bytesLeft = bytesMax;
  let elementsLeft: number = FIELD_LIMITS.METADATA_ANSWER_ELEMENTS - 64;
  for (const broker of brokers) {
    bytesLeft -= 13 + broker.address.length * 3;
    elementsLeft -= 4;
  }
  for (let index = 0; index < topics.length; index++) {
    const cost = topicCost(topics[index] as TopicMetadata);
    bytesLeft -= cost.bytes;
    elementsLeft -= cost.elements;
    if (bytesLeft < 0 || elementsLeft < 0) return Math.max(1, index);
  }
  return topics.length;
}

function topicCost(topic: TopicMetadata): { bytes: number; elements: number } {
  let bytes = 64 + topic.name.length * 3;
  let elements = 8 + topic.configs.length * 3;
  for (const { key, value } of topic.configs) bytes += 8 + (key.length + value.length) * 3;
  for (const { replicas, isr, elr } of topic.partitions) {
    const nodes = replicas.length + isr.length + elr.length;
    bytes += 1 + WORST_INT_BYTES * (10 + nodes);
    elements += 11 + nodes;
  }
  return { bytes, elements };
}
