// Damage to files: each mode leaves the file other than it was, only where it was told to, and says what it did.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { DAMAGE_MODES, damageFile } from "../../../src/chaos/faults/corrupt-files.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-damage-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const path = join(directory, "file");

function written(sizeBytes: number, seed: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  createRng(seed).fill(bytes);
  writeFileSync(path, bytes);
  return bytes;
}

describe("damageFile", () => {
  it("always makes a difference, and only within the range", () => {
    const cases = fc.record({
      mode: fc.constantFrom(...DAMAGE_MODES),
      seed: fc.nat(),
      sizeBytes: fc.integer({ min: 2, max: 20_000 }),
      from: fc.nat({ max: 19_999 }),
      to: fc.nat({ max: 20_000 }),
    });
    fc.assert(
      fc.property(cases, ({ mode, seed, sizeBytes, from, to }) => {
        fc.pre(from < Math.min(to, sizeBytes) - 1);
        const before = written(sizeBytes, seed);
        const said = damageFile(path, mode, { rng: createRng(seed + 1), from, to });
        const after = readFileSync(path);
        expect(after.equals(before)).toBe(false);
        expect(said).toMatch(/\d/);
        expect(after.subarray(0, from).equals(before.subarray(0, from))).toBe(true);
        if (mode === "cut") expect(after.equals(before.subarray(0, after.length))).toBe(true);
        else expect(after.subarray(to).equals(before.subarray(to))).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it("flip turns over one bit", () => {
    const before = written(1_000, 3);
    damageFile(path, "flip", { rng: createRng(9) });
    const after = readFileSync(path);
    const bits = [...after].map((byte, at) => (byte ^ (before[at] ?? 0)).toString(2).replaceAll("0", "").length);
    expect(bits.reduce((sum, each) => sum + each, 0)).toBe(1);
  });

  it("refuses a range without bytes, and zeros where all is zero", () => {
    writeFileSync(path, Buffer.alloc(8_192));
    expect(() => damageFile(path, "zero", { rng: createRng(1) })).toThrow(/make a difference/);
    expect(() => damageFile(path, "flip", { rng: createRng(1), from: 8_192 })).toThrow(/no bytes/);
  });
});
