// What ByteWriter writes is what ByteReader reads, wherever its bytes have to grow.
import { expect, test } from "vitest";
import { ByteReader, ByteWriter } from "../../src/storage/format.ts";
import { decodeImage, emptyLogImage, encodeImage } from "../../src/storage/image.ts";
import { toLogId } from "../../src/model/ids.ts";
import { checksum, specOf } from "./support.ts";

/** Over the first size of a writer, and over what it grows to. */
const LENGTHS = [1024, 2048].flatMap((size) => Array.from({ length: 20 }, (_, index) => size - 10 + index));

test("each kind of value is written where the bytes end and others take their place", () => {
  for (const length of LENGTHS) {
    const kinds: readonly [(writer: ByteWriter) => void, (reader: ByteReader) => unknown, unknown][] = [
      [(writer) => writer.u8(0xab), (reader) => reader.u8(), 0xab],
      [(writer) => writer.u16(0xabcd), (reader) => reader.u16(), 0xabcd],
      [(writer) => writer.u32(0xabcdef01), (reader) => reader.u32(), 0xabcdef01],
      [(writer) => writer.i64(-3), (reader) => reader.i64(), -3],
      [(writer) => writer.text("grow"), (reader) => reader.text(), "grow"],
    ];
    for (const [write, read, value] of kinds) {
      const writer = new ByteWriter();
      writer.raw(new Uint8Array(length));
      write(writer);
      writer.u8(7);
      const reader = new ByteReader(writer.bytes(), length);
      expect([length, read(reader), reader.u8()]).toEqual([length, value, 7]);
    }
  }
});

test("D-17: an image with damaged logs is read again, however long the names before them are", () => {
  for (let length = 1; length <= 1_100; length++) {
    const damage = { reason: "rot", fromOffset: undefined };
    const logs = [
      emptyLogImage(toLogId(1), specOf("n".repeat(length)), 0),
      { ...emptyLogImage(toLogId(2), specOf("b", 0, 2), 0), damage },
    ];
    const image = { generation: 1, nextLogId: 3, evidence: undefined, logs };
    expect(decodeImage(encodeImage(image, checksum), { path: "image", checksum })).toEqual(image);
  }
});
