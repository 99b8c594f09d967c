// The format language of `consume -f`: a text with %-escapes, parsed once, then written record by record as bytes.
// %t topic  %p partition  %o offset  %T timestamp (ms)  %k key  %v value  %h headers  %K %V their lengths (-1 = null)  %e leader epoch
// %% a percent sign; \n \t \r \0 \\ and \xHH bytes.
import type { ConsumedRecord } from "../client/types.ts";
import { UsageError } from "./values.ts";

export type FormatField =
  | "topic"
  | "partition"
  | "offset"
  | "timestamp"
  | "key"
  | "value"
  | "headers"
  | "keyBytes"
  | "valueBytes"
  | "epoch";

export type FormatPart =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "field"; readonly field: FormatField };

const FIELDS: Readonly<Record<string, FormatField>> = {
  t: "topic",
  p: "partition",
  o: "offset",
  T: "timestamp",
  k: "key",
  v: "value",
  s: "value",
  h: "headers",
  K: "keyBytes",
  V: "valueBytes",
  S: "valueBytes",
  e: "epoch",
};
const BACKSLASHED: Readonly<Record<string, number>> = { n: 10, t: 9, r: 13, "0": 0, "\\": 92 };

export function parseFormat(text: string): FormatPart[] {
  const parts: FormatPart[] = [];
  let literal: number[] = [];
  const flush = () => {
    if (literal.length > 0) parts.push({ kind: "bytes", bytes: Uint8Array.from(literal) });
    literal = [];
  };
  let at = 0;
  while (at < text.length) {
    const escape = readEscape(text, at);
    if (escape.kind === "field") {
      flush();
      parts.push({ kind: "field", field: escape.field });
    } else literal.push(...escape.bytes);
    at += escape.length;
  }
  flush();
  return parts;
}

type Escape = { readonly length: number } & (
  | { readonly kind: "bytes"; readonly bytes: Iterable<number> }
  | { readonly kind: "field"; readonly field: FormatField }
);

function readEscape(text: string, at: number): Escape {
  const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const next = text[at + 1] ?? "";
  if (character === "%") return readPercent(next);
  if (character !== "\\") return { kind: "bytes", bytes: Buffer.from(character), length: character.length };
  if (next === "x") {
    const digits = text.slice(at + 2, at + 4);
    if (!/^[0-9A-Fa-f]{2}$/.test(digits)) throw new UsageError(`-f: \\x takes two hexadecimal digits, not "${digits}"`);
    return { kind: "bytes", bytes: [Number.parseInt(digits, 16)], length: 4 };
  }
  const byte = BACKSLASHED[next];
  if (byte === undefined) throw new UsageError(`-f: unknown escape "\\${next}"`, "use \\n \\t \\r \\0 \\\\ or \\xHH");
  return { kind: "bytes", bytes: [byte], length: 2 };
}

function readPercent(next: string): Escape {
  if (next === "%") return { kind: "bytes", bytes: [37], length: 2 };
  const field = FIELDS[next];
  if (field === undefined)
    throw new UsageError(`-f: unknown escape "%${next}"`, "use %t %p %o %T %k %v %h %K %V %e or %%");
  return { kind: "field", field, length: 2 };
}

/** Where formatted bytes go; grows by handing full chunks to `flush`. */
export interface ByteSink {
  byte(value: number): void;
  bytes(value: Uint8Array): void;
  text(value: string): void;
}

export function writeRecord(parts: readonly FormatPart[], record: ConsumedRecord, sink: ByteSink): void {
  for (const part of parts) {
    if (part.kind === "bytes") sink.bytes(part.bytes);
    else writeField(part.field, record, sink);
  }
}

function writeField(field: FormatField, record: ConsumedRecord, sink: ByteSink): void {
  switch (field) {
    case "value":
      return record.value === null ? undefined : sink.bytes(record.value);
    case "key":
      return record.key === null ? undefined : sink.bytes(record.key);
    case "topic":
      return sink.text(record.topic);
    case "partition":
      return sink.text(String(record.partition));
    case "offset":
      return sink.text(String(record.offset));
    case "timestamp":
      return sink.text(String(record.timestamp));
    case "keyBytes":
      return sink.text(String(record.key?.length ?? -1));
    case "valueBytes":
      return sink.text(String(record.value?.length ?? -1));
    case "epoch":
      return sink.text(String(record.leaderEpoch));
    case "headers":
      return writeHeaders(record, sink);
  }
}

/** name=value,name=value; a null value has no "=". */
function writeHeaders(record: ConsumedRecord, sink: ByteSink): void {
  record.headers.forEach(([name, value], index) => {
    if (index > 0) sink.text(",");
    sink.text(name);
    if (value === null) return;
    sink.text("=");
    sink.bytes(value);
  });
}

/** A record as one JSON object; bytes that are not UTF-8 become base64 and say so in `keyEncoding` or `valueEncoding`. */
export function recordAsJson(record: ConsumedRecord): Record<string, unknown> {
  const key = bytesAsJson(record.key);
  const value = bytesAsJson(record.value);
  return {
    topic: record.topic,
    partition: record.partition,
    offset: record.offset,
    timestamp: record.timestamp,
    leaderEpoch: record.leaderEpoch,
    key: key.text,
    ...(key.isBase64 ? { keyEncoding: "base64" } : {}),
    value: value.text,
    ...(value.isBase64 ? { valueEncoding: "base64" } : {}),
    headers: record.headers.map(([name, content]) => {
      const { text, isBase64 } = bytesAsJson(content);
      return { key: name, value: text, ...(isBase64 ? { valueEncoding: "base64" } : {}) };
    }),
  };
}

function bytesAsJson(bytes: Uint8Array | null): { readonly text: string | null; readonly isBase64: boolean } {
  if (bytes === null) return { text: null, isBase64: false };
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  // Decoding and encoding again gives the same bytes exactly when they were valid UTF-8.
  const isValid = !text.includes("\ufffd") || Buffer.from(text, "utf8").equals(buffer);
  return isValid ? { text, isBase64: false } : { text: buffer.toString("base64"), isBase64: true };
}
