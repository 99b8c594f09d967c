// Damage to a sound request. `damaged`: to its bytes as they are, so that most of it ends at the first check. `repaired`: to the values in it, which
// are then written out again with right lengths, numbers of bodies and checksums, so that it gets as deep as what a client sends.
import { concatBytes } from "../../src/base/bytes.ts";
import type { Rng } from "../../src/base/rng.ts";
import { type Plain, type PlainOut, packPlain, unpackPlain } from "../../src/wire/native/msgpack.ts";
import { LIMITS } from "../../src/wire/native/protocol.ts";
import { repairedBatch } from "./batches.ts";

const BODIES_AT = 4;
const ODD_NUMBERS = [
  0,
  1,
  2,
  -1,
  -2,
  127,
  128,
  255,
  256,
  1023,
  1024,
  1025,
  65_535,
  65_536,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31),
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  1 - 2 ** 53,
];
const ODD_TEXTS = [
  "",
  "a",
  "\u0000",
  "../../etc",
  "x".repeat(249),
  "x".repeat(1024),
  "x".repeat(1025),
  "\ud83d\ude00".repeat(80),
  "node 1",
  "1",
];

/** Bytes of one of its messages are changed, cut off, doubled, or another sample goes on in its middle. */
export function damaged(messages: readonly Uint8Array[], other: readonly Uint8Array[], rng: Rng): Uint8Array[] {
  const out: Uint8Array[] = messages.map((message) => message.slice());
  // Mostly the envelope: behind it there is nothing where there are no bodies.
  const which = rng.chance(0.8) ? 0 : rng.below(out.length);
  let bytes: Uint8Array = out[which] ?? new Uint8Array(1);
  for (let left = rng.between(1, 4); left > 0 && bytes.length > 0; left--)
    bytes = damagedOnce(bytes, other[0] ?? bytes, rng);
  out[which] = bytes;
  const order = rng.below(20);
  if (order === 0) out.pop();
  return order === 1 ? out.toReversed() : out;
}

function damagedOnce(bytes: Uint8Array, other: Uint8Array, rng: Rng): Uint8Array {
  const at = rng.below(bytes.length);
  switch (rng.below(6)) {
    case 0:
      bytes[at] = (bytes[at] ?? 0) ^ (1 << rng.below(8));
      return bytes;
    case 1:
      bytes[at] = rng.pick([0, 0x7f, 0x80, 0xc0, 0xc1, 0xc4, 0xc6, 0xcf, 0xd3, 0xdc, 0xdd, 0xdf, 0xff]);
      return bytes;
    case 2:
      return bytes.slice(0, at);
    case 3:
      return concatBytes([bytes.subarray(0, at), bytes.subarray(rng.below(bytes.length))]);
    case 4:
      return concatBytes([bytes.subarray(0, at), other.subarray(rng.below(other.length))]);
    default:
      bytes[at] = rng.below(256);
      return bytes;
  }
}

/** The envelope is one that `encodeRequest` made. */
export function repaired(messages: readonly Uint8Array[], rng: Rng): Uint8Array[] {
  const [envelope = new Uint8Array(0), ...following] = messages;
  const fields = [...(unpackPlain(envelope) as readonly Plain[])];
  const bodies = bodiesOf(fields[BODIES_AT] as readonly Plain[], following);
  for (let left = rng.between(1, 2); left > 0; left--) {
    const kind = rng.below(15);
    const at = rng.below(bodies.length || 1);
    const body = bodies[at];
    if (kind === 0) fields[rng.pick([0, 1, 3])] = changed(1, rng);
    else if (kind <= 6 && body !== undefined) bodies[at] = repairedBatch(body, rng);
    else if (kind === 7 && body !== undefined)
      bodies.splice(at, rng.below(2), ...(rng.chance(0.5) ? [body, body] : []));
    else fields[5] = changedWithin(fields[5] ?? null, rng);
  }
  return encoded(fields, bodies, rng);
}

function bodiesOf(announced: readonly Plain[], following: readonly Uint8Array[]): Uint8Array[] {
  let next = 0;
  return announced.map((item) => (item instanceof Uint8Array ? item : (following[next++] ?? new Uint8Array(0))));
}

/** Small bodies go inside or follow, by chance: a broker takes both. */
function encoded(fields: readonly Plain[], bodies: readonly Uint8Array[], rng: Rng): Uint8Array[] {
  const following: Uint8Array[] = [];
  const announcement = bodies.map((body) => {
    const isInline = body.length === 0 || (body.length <= LIMITS.INLINE_BODY_BYTES && rng.chance(0.7));
    if (!isInline) following.push(body);
    return isInline ? body : body.length;
  });
  return [packPlain(outOf(fields.with(BODIES_AT, announcement))), ...following];
}

function outOf(value: Plain): PlainOut {
  if (Array.isArray(value)) return (value as readonly Plain[]).map(outOf);
  if (typeof value !== "number") return value as PlainOut;
  return value > 0xffffffff || value < -0x80000000 ? BigInt(value) : value;
}

/** One value somewhere inside. */
function changedWithin(value: Plain, rng: Rng): Plain {
  if (!Array.isArray(value) || value.length === 0 || rng.chance(0.15)) return changed(value, rng);
  const items = value as readonly Plain[];
  const at = rng.below(items.length);
  return items.with(at, changedWithin(items[at] ?? null, rng));
}

function changed(value: Plain, rng: Rng): Plain {
  // Of another type, now and then.
  if (rng.chance(0.03)) return rng.pick<Plain>([null, true, 0, "", new Uint8Array(16), []]);
  if (typeof value === "number") return rng.chance(0.5) ? value + rng.pick([-1, 1]) : rng.pick(ODD_NUMBERS);
  if (typeof value === "boolean") return !value;
  if (typeof value === "string")
    return rng.chance(0.3) ? value.slice(0, rng.below(value.length + 1)) : rng.pick(ODD_TEXTS);
  if (value instanceof Uint8Array) return changedBytes(value, rng);
  return value === null
    ? rng.pick<Plain>(["a", 1, [], new Uint8Array(16)])
    : changedArray(value as readonly Plain[], rng);
}

function changedBytes(value: Uint8Array, rng: Rng): Uint8Array {
  const bytes = value.slice();
  rng.fill(bytes.subarray(rng.below(bytes.length + 1)));
  return rng.chance(0.2) ? bytes.slice(0, rng.below(bytes.length + 1)) : bytes;
}

function changedArray(items: readonly Plain[], rng: Rng): Plain {
  const [first = 0] = items;
  switch (rng.below(4)) {
    case 0:
      return [];
    case 1:
      return items.toReversed();
    case 2:
      return items.slice(0, rng.below(items.length + 1));
    default:
      return [...items, ...Array.from({ length: rng.pick([1, 2, 64, 1100]) }, () => first)];
  }
}
