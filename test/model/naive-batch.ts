// The record batch once more, written as simply as the rules read: arrays of bytes, BigInt, one bit of checksum at a time. The twin that the
// fast code is held against.

export interface NaiveRecord {
  readonly offsetDelta: number;
  readonly timestampDelta: number;
  readonly key: readonly number[] | null;
  readonly value: readonly number[] | null;
  readonly headers: readonly (readonly [key: string, value: readonly number[] | null])[];
}

export interface NaiveBatch {
  readonly baseOffset: number;
  readonly leaderEpoch: number;
  readonly attributes: number;
  readonly lastOffsetDelta: number;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
}

export const NO_PRODUCER = { producerId: -1, producerEpoch: -1, baseSequence: -1 };

export function naiveInteger(value: number, sizeBytes: number): number[] {
  let rest = BigInt.asUintN(sizeBytes * 8, BigInt(value));
  const bytes: number[] = [];
  for (let index = 0; index < sizeBytes; index++) {
    bytes.unshift(Number(rest & 0xffn));
    rest >>= 8n;
  }
  return bytes;
}

export function naiveVarint(value: number): number[] {
  const wide = BigInt(value);
  let zigzag = wide >= 0n ? wide * 2n : -wide * 2n - 1n;
  const bytes: number[] = [];
  for (; zigzag >= 0x80n; zigzag >>= 7n) bytes.push(Number(zigzag & 0x7fn) | 0x80);
  return [...bytes, Number(zigzag)];
}

export function naiveCrc32c(bytes: readonly number[]): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc >>> 0;
}

function naiveNullable(bytes: readonly number[] | null): number[] {
  return bytes === null ? naiveVarint(-1) : [...naiveVarint(bytes.length), ...bytes];
}

export function naiveRecord(record: NaiveRecord): number[] {
  const body = [
    0,
    ...naiveVarint(record.timestampDelta),
    ...naiveVarint(record.offsetDelta),
    ...naiveNullable(record.key),
    ...naiveNullable(record.value),
    ...naiveVarint(record.headers.length),
    ...record.headers.flatMap(([key, value]) => [
      ...naiveNullable([...Buffer.from(key, "utf8")]),
      ...naiveNullable(value),
    ]),
  ];
  return [...naiveVarint(body.length), ...body];
}

/** A batch around record bytes of any kind: well formed, damaged or compressed. */
export function naiveBatch(batch: NaiveBatch, records: readonly number[]): Uint8Array {
  const covered = [
    ...naiveInteger(batch.attributes, 2),
    ...naiveInteger(batch.lastOffsetDelta, 4),
    ...naiveInteger(batch.baseTimestamp, 8),
    ...naiveInteger(batch.maxTimestamp, 8),
    ...naiveInteger(batch.producerId, 8),
    ...naiveInteger(batch.producerEpoch, 2),
    ...naiveInteger(batch.baseSequence, 4),
    ...naiveInteger(batch.recordCount, 4),
    ...records,
  ];
  return Uint8Array.from([
    ...naiveInteger(batch.baseOffset, 8),
    ...naiveInteger(covered.length + 9, 4),
    ...naiveInteger(batch.leaderEpoch, 4),
    2,
    ...naiveInteger(naiveCrc32c(covered), 4),
    ...covered,
  ]);
}

/** The records of these bytes, or undefined when they are not exactly `count` well-formed ones. Deltas are not judged. */
export function naiveParse(bytes: readonly number[], count: number): NaiveRecord[] | undefined {
  try {
    const reader = new NaiveReader(bytes);
    const records = Array.from({ length: count }, () => reader.record());
    return reader.isAtEnd() ? records : undefined;
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

class Unreadable extends Error {}

class NaiveReader {
  #rest: readonly number[];

  constructor(bytes: readonly number[]) {
    this.#rest = bytes;
  }

  isAtEnd(): boolean {
    return this.#rest.length === 0;
  }

  take(count: number): number[] {
    if (count < 0 || count > this.#rest.length) throw new Unreadable();
    const taken = this.#rest.slice(0, count);
    this.#rest = this.#rest.slice(count);
    return taken;
  }

  integer(limit: { readonly groups: number; readonly magnitude: bigint }): number {
    let zigzag = 0n;
    for (let group = 0; ; group++) {
      if (group === limit.groups) throw new Unreadable();
      const byte = this.take(1)[0] as number;
      zigzag |= BigInt(byte & 0x7f) << BigInt(7 * group);
      if (byte < 0x80) break;
    }
    const value = zigzag % 2n === 0n ? zigzag / 2n : -(zigzag / 2n) - 1n;
    if (value >= limit.magnitude || value < -limit.magnitude) throw new Unreadable();
    return Number(value);
  }

  varint(): number {
    return this.integer({ groups: 5, magnitude: 2n ** 31n });
  }

  nullable(): number[] | null {
    const length = this.varint();
    return length === -1 ? null : this.take(length);
  }

  record(): NaiveRecord {
    const body = new NaiveReader(this.take(this.varint()));
    body.take(1);
    const timestampDelta = body.integer({ groups: 10, magnitude: 2n ** 52n });
    const offsetDelta = body.varint();
    const key = body.nullable();
    const value = body.nullable();
    const headerCount = body.varint();
    if (headerCount < 0 || headerCount > body.left) throw new Unreadable();
    const headers = Array.from({ length: headerCount }, () => {
      const name = body.nullable();
      if (name === null) throw new Unreadable();
      return [Buffer.from(name).toString("utf8"), body.nullable()] as const;
    });
    if (!body.isAtEnd()) throw new Unreadable();
    return { offsetDelta, timestampDelta, key, value, headers };
  }

  get left(): number {
    return this.#rest.length;
  }
}
