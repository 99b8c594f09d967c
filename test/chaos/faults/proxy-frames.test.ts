// Which bytes of a WebSocket connection are record batches under their own CRC, however the bytes are cut into chunks.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { RecordFrames } from "../../../src/chaos/faults/proxy-frames.ts";

const HEAD = Buffer.from("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n");

function frame(payload: Buffer, { opcode = 2, mask }: { opcode?: number; mask?: Buffer } = {}): Buffer {
  const length = payload.length;
  const short = length < 126 ? length : length < 65_536 ? 126 : 127;
  const long = Buffer.alloc(short === 126 ? 2 : short === 127 ? 8 : 0);
  if (short === 126) long.writeUInt16BE(length);
  if (short === 127) long.writeBigUInt64BE(BigInt(length));
  const head = Buffer.from([0x80 | opcode, (mask === undefined ? 0 : 0x80) | short]);
  const masked = mask === undefined ? payload : payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0));
  return Buffer.concat([head, long, mask ?? Buffer.alloc(0), masked]);
}

/** Of so many bytes; those under the CRC are 0xcc, all others are not. */
function batch(wholeBytes: number, magic = 2): Buffer {
  const bytes = Buffer.alloc(wholeBytes, 0xcc);
  bytes.fill(0, 0, 17);
  bytes.writeInt32BE(wholeBytes - 12, 8);
  bytes[16] = magic;
  return bytes;
}

function found(chunks: readonly Buffer[]): Buffer {
  const frames = new RecordFrames();
  const ranges: Buffer[] = [];
  for (const chunk of chunks) frames.take(chunk, (from, to) => void ranges.push(chunk.subarray(from, to)));
  return Buffer.concat(ranges);
}

function cut(bytes: Buffer, seed: number): Buffer[] {
  const rng = createRng(seed);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = rng.chance(0.3) ? rng.between(1, 20) : rng.between(1, 30_000);
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

const ENVELOPE = Buffer.alloc(100, 0xee);

describe("record batches in a connection", () => {
  it("are found but for the first bytes of each, in whatever chunks they come", () => {
    const body = Buffer.concat([batch(9_000), batch(70_000), batch(61)]);
    const bytes = Buffer.concat([
      HEAD,
      frame(ENVELOPE),
      frame(body),
      frame(Buffer.alloc(0), { opcode: 9 }),
      frame(body),
    ]);
    const expected = 2 * (body.length - 3 * 17);
    fc.assert(
      fc.property(fc.nat(), (seed) => {
        const ranges = found(cut(bytes, seed));
        expect(ranges.length).toBe(expected);
        expect(ranges.every((byte) => byte === 0xcc)).toBe(true);
      }),
      { numRuns: 30 },
    );
  });

  it("are found behind a client's mask", () => {
    const mask = Buffer.from([1, 2, 3, 4]);
    const body = Buffer.concat([batch(10_001), batch(12_000)]);
    const ranges = found(cut(Buffer.concat([HEAD, frame(ENVELOPE, { mask }), frame(body, { mask })]), 5));
    expect(ranges.length).toBe(body.length - 2 * 17);
  });

  it("are not looked for in envelopes, in short messages, and in what begins like none", () => {
    const others = [frame(batch(8_000)), frame(Buffer.alloc(20_000, 0x91)), frame(batch(20_000, 1)), frame(ENVELOPE)];
    expect(found([Buffer.concat([HEAD, ...others])]).length).toBe(0);
    // The next message is found again.
    expect(found([Buffer.concat([HEAD, ...others, frame(batch(10_000))])]).length).toBe(10_000 - 17);
  });
});
