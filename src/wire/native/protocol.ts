// The shape of a logical message of the native protocol: one envelope that announces its bodies, then the bodies
// (docs/protocol.md). codec.ts turns these into bytes and back.
import type { ErrorName } from "../../model/errors.ts";
import type { ApiKey, ApiTypes } from "./apis.ts";

export interface RequestHeader {
  readonly api: ApiKey;
  readonly version: number;
  /** Chosen by the client, 0 .. 2^32 - 1; one still unanswered must not be used again. */
  readonly correlationId: number;
  /** How long the client will wait; work past it is dropped before it is done. 0 = the broker's default. */
  readonly deadlineMs: number;
}

export type DecodedRequest = {
  [Key in ApiKey]: {
    readonly header: RequestHeader & { readonly api: Key };
    readonly request: ApiTypes[Key]["request"];
    readonly bodies: readonly Uint8Array[];
  };
}[ApiKey];

export interface ResponseHeader {
  readonly api: ApiKey;
  readonly version: number;
  readonly correlationId: number;
  /** Another part of this answer follows. */
  readonly more: boolean;
  /** Not NONE: the request as a whole failed, there is no payload, `message` says more. */
  readonly error: ErrorName;
  readonly message: string | null;
}

/** `response` is null when the header carries an error. The client knows the api from the correlation id. */
export interface DecodedResponse {
  readonly header: ResponseHeader;
  readonly response: unknown;
  readonly bodies: readonly Uint8Array[];
}

/** What an assembler says of one more received message. */
export type Assembled<Message> =
  | { readonly kind: "incomplete" }
  | { readonly kind: "message"; readonly message: Message; readonly sizeBytes: number }
  /** The connection is to be closed with this code; nothing of the half message took effect. */
  | {
      readonly kind: "broken";
      readonly error: ErrorName;
      readonly reason: string;
      readonly correlationId: number | null;
    };

/** D-38. */
export const LIMITS = {
  ENVELOPE_BYTES: 64 * 1024,
  METADATA_ANSWER_BYTES: 1024 * 1024,
  /** Requests and answers with a row for each of many replicas. */
  REPLICA_ENVELOPE_BYTES: 256 * 1024,
  BODIES: 1024,
  LOGICAL_MESSAGE_BODY_BYTES: 1024 * 1024,
  INLINE_BODY_BYTES: 8 * 1024,
  /** Silence allowed while bodies are owed. */
  OWED_BODY_SILENCE_MS: 10_000,
  DEPTH: 8,
} as const;
