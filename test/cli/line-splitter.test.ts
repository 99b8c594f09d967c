// Lines from chunks cut anywhere, and long lines that are never held.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineSplitter } from "../../src/cli/line-splitter.ts";

async function split(input: Uint8Array, options: { readonly cuts: readonly number[]; readonly limit: number }) {
  const lines: string[] = [];
  const tooLong: number[] = [];
  const splitter = new LineSplitter(options.limit, {
    onLine: (line, lineNumber) => {
      lines.push(`${lineNumber}:${Buffer.from(line).toString("latin1")}`);
      return lines.length % 2 === 0 ? Promise.resolve() : undefined;
    },
    onTooLong: (lineNumber) => void tooLong.push(lineNumber),
  });
  let from = 0;
  for (const cut of [...options.cuts].sort((a, b) => a - b)) {
    const to = Math.min(Math.max(cut, from), input.length);
    // A copy that is wiped afterwards: the splitter must not hold on to a chunk.
    const chunk = input.slice(from, to);
    await splitter.push(chunk);
    chunk.fill(0x21);
    from = to;
  }
  await splitter.push(input.slice(from));
  await splitter.end();
  return { lines, tooLong };
}

function naive(input: Uint8Array, limit: number) {
  const parts = Buffer.from(input).toString("latin1").split("\n");
  if (parts.at(-1) === "") parts.pop();
  const numbered = parts.map((text, index) => ({ text, number: index + 1 }));
  return {
    lines: numbered.filter(({ text }) => text.length <= limit).map(({ text, number }) => `${number}:${text}`),
    tooLong: numbered.filter(({ text }) => text.length > limit).map(({ number }) => number),
  };
}

describe("line splitter", () => {
  it("is the same as a naive split, however the bytes arrive", async () => {
    const bytes = fc.array(fc.constantFrom(10, 10, 13, 0, 255, 65, 66, 67), { maxLength: 60 });
    const cases = fc.record({
      bytes,
      cuts: fc.array(fc.nat(60), { maxLength: 6 }),
      limit: fc.integer({ min: 1, max: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(cases, async ({ bytes: values, cuts, limit }) => {
        const input = Uint8Array.from(values);
        expect(await split(input, { cuts, limit })).toEqual(naive(input, limit));
      }),
      { numRuns: 300 },
    );
  });

  it("keeps CR, gives empty lines, and takes a last line without LF", async () => {
    const input = Buffer.from("a\r\n\n\nlast");
    expect((await split(input, { cuts: [2], limit: 10 })).lines).toEqual(["1:a\r", "2:", "3:", "4:last"]);
  });

  it("throws a line of 64 MiB away while it streams by", async () => {
    const tooLong: number[] = [];
    const lines: string[] = [];
    const splitter = new LineSplitter(1024, {
      onLine: (line) => {
        lines.push(Buffer.from(line).toString());
        return undefined;
      },
      onTooLong: (lineNumber) => void tooLong.push(lineNumber),
    });
    const chunk = new Uint8Array(64 * 1024).fill(65);
    const before = process.memoryUsage().arrayBuffers;
    for (let count = 0; count < 1024; count++) await splitter.push(chunk);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024);
    await splitter.push(Buffer.from("\nnext\n"));
    expect({ tooLong, lines }).toEqual({ tooLong: [1], lines: ["next"] });
  });
});
