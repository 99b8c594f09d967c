// What callers hand to send(), checked and in the form that a batch takes.
import { utf8Encode } from "../base/bytes.ts";
import { OttlaError } from "../model/errors.ts";
import { invalid } from "./options.ts";
import type { Acks, Headers, OutgoingRecord } from "./types.ts";

const NO_HEADERS: Headers = [];
/** 2^52 - 2: the difference of any two timestamps fits a record. */
const TIMESTAMP_MAX = 4_503_599_627_370_494;
const NULLABLE_BYTES = "bytes (Uint8Array), a string or null";

/** Bytes from another realm (a vm, a test runner) are instances of another Uint8Array. */
function isBytes(data: unknown): data is Uint8Array {
  return data instanceof Uint8Array || Object.prototype.toString.call(data) === "[object Uint8Array]";
}

function checkData(data: unknown, field: string): void {
  if (data === null || typeof data === "string" || isBytes(data)) return;
  throw invalid(field, NULLABLE_BYTES, data);
}

function bytesOf(data: Uint8Array | string | null, field: string): Uint8Array | null {
  if (data === null || data instanceof Uint8Array) return data;
  if (typeof data === "string") return utf8Encode(data);
  checkData(data, field);
  return data;
}

function headersOf(headers: NonNullable<OutgoingRecord["headers"]>): Headers {
  if (Array.isArray(headers)) {
    for (const header of headers as readonly unknown[]) checkHeader(header);
    return headers as Headers;
  }
  if (typeof headers !== "object" || headers === null) {
    throw invalid("record.headers", "a list of [key, bytes] or an object", headers);
  }
  const named = headers as Readonly<Record<string, string | Uint8Array | null>>;
  return Object.entries(named).map(([key, value]) => [key, bytesOf(value, `record.headers.${key}`)] as const);
}

function checkHeader(header: unknown): void {
  const isPair = Array.isArray(header) && header.length === 2 && typeof header[0] === "string";
  if (!isPair) throw invalid("record.headers", "pairs [key, bytes] in its list", header);
  if (header[1] !== null && !isBytes(header[1])) {
    throw invalid(`record.headers: ${header[0]}`, "bytes (Uint8Array) or null", header[1]);
  }
}

export interface NormalRecord {
  key: Uint8Array | null;
  value: Uint8Array | null;
  headers: Headers;
  timestamp: number;
}

/** Throws INVALID_REQUEST naming the field. */
export function checkRecord(record: OutgoingRecord): void {
  if (typeof record !== "object" || record === null) throw invalid("record", "an object with a value", record);
  const { key, value, headers, timestamp, partition } = record;
  if (key !== undefined) checkData(key, "record.key");
  checkData(value, "record.value");
  if (headers !== undefined) headersOf(headers);
  if (timestamp !== undefined) checkTimestamp(timestamp);
  if (partition !== undefined) checkPartition(partition);
}

/** Fills `target`, which is reused from record to record. Throws INVALID_REQUEST naming the field. */
export function normalise(record: OutgoingRecord, defaultTimestamp: number, target: NormalRecord): void {
  // Plain JavaScript may pass anything, and change it while it waits.
  if (typeof record !== "object" || record === null) throw invalid("record", "an object with a value", record);
  const { key, value, headers, timestamp, partition } = record;
  target.key = key === undefined ? null : bytesOf(key, "record.key");
  target.value = bytesOf(value, "record.value");
  target.headers = headers === undefined ? NO_HEADERS : headersOf(headers);
  if (partition !== undefined) checkPartition(partition);
  if (timestamp !== undefined) checkTimestamp(timestamp);
  target.timestamp = timestamp ?? defaultTimestamp;
}

function checkPartition(partition: number): void {
  if (Number.isInteger(partition) && partition >= 0) return;
  throw invalid("record.partition", "an integer from 0 on", partition);
}

function checkTimestamp(timestamp: number): void {
  if (Number.isInteger(timestamp) && timestamp >= -1 && timestamp <= TIMESTAMP_MAX) return;
  throw invalid("record.timestamp", "whole milliseconds since 1970", timestamp);
}

/** Throws INVALID_REQUEST. */
export function checkTopicName(topic: unknown): void {
  if (typeof topic !== "string" || topic === "") throw invalid("topic", "a topic's name", topic);
}

/** Acks as the protocol counts them: 0, 1, -1 for all. Throws INVALID_REQUEST. */
export function wireAcks(acks: Acks): number {
  if (acks === "all") return -1;
  if (acks === 0 || acks === 1) return acks;
  throw new OttlaError("INVALID_REQUEST", `acks takes 0, 1 or "all", not ${String(acks)}`);
}
