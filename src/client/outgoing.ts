// What callers hand to send(), in the form that a batch takes.
import { utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import type { Acks, Headers, OutgoingRecord } from "./types.ts";

const NO_HEADERS: Headers = [];

function bytesOf(data: Uint8Array | string | null | undefined): Uint8Array | null {
  if (data === undefined || data === null) return null;
  return typeof data === "string" ? utf8Encode(data) : data;
}

function isList(headers: NonNullable<OutgoingRecord["headers"]>): headers is Headers {
  return Array.isArray(headers);
}

function headersOf(headers: OutgoingRecord["headers"]): Headers {
  if (headers === undefined) return NO_HEADERS;
  if (isList(headers)) return headers;
  return Object.entries(headers).map(([key, value]) => [key, bytesOf(value)] as const);
}

export interface NormalRecord {
  key: Uint8Array | null;
  value: Uint8Array | null;
  headers: Headers;
  timestamp: number;
}

/** Fills `target`, which is reused from record to record. */
export function normalise(record: OutgoingRecord, defaultTimestamp: number, target: NormalRecord): void {
  target.key = bytesOf(record.key);
  target.value = bytesOf(record.value);
  target.headers = headersOf(record.headers);
  target.timestamp = record.timestamp ?? defaultTimestamp;
}

/** Acks as the protocol counts them: 0, 1, -1 for all. Throws INVALID_REQUIRED_ACKS. */
export function wireAcks(acks: Acks): number {
  if (acks === "all") return -1;
  if (acks === 0 || acks === 1) return acks;
  throw new OttlaError("INVALID_REQUIRED_ACKS");
}
