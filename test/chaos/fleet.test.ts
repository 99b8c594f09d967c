// What becomes of client processes: each that ends otherwise than it was told to is named.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { Children } from "../../src/chaos/children.ts";
import { Fleet } from "../../src/chaos/clients/fleet.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-fleet-"));
const children = new Children();
afterAll(async () => {
  await children.close();
  rmSync(directory, { recursive: true, force: true });
});

/** One client, of which a program takes the place; its own command is what that does not look at. */
function fleetOf(program: readonly string[]): Fleet {
  return new Fleet(
    {
      ...{ children, directory, brokers: [], topics: [], rng: createRng(1), nextLife: () => 0 },
      prefix: program,
    },
    [{ name: "reader-1", role: { kind: "reader", sessionMs: [1, 2], rereadChance: 0 } }],
  );
}

/** As a client does: it ends when it is told to. */
const OBEDIENT = [process.execPath, "-e", 'process.once("message", () => process.exit(0))'];

describe("a fleet", () => {
  it("names a client that ends by itself, also where that calls it a good end", async () => {
    const fleet = fleetOf(["sh", "-c", "exit 0"]);
    await expect.poll(() => fleet.bugs).toEqual(["reader-1: ended by itself: {}"]);
    await fleet.stop();
  });

  it("names one that ends with an error", async () => {
    const fleet = fleetOf(["sh", "-c", "exit 3"]);
    await expect.poll(() => fleet.bugs).toEqual(["reader-1: reader-1 ended with 3"]);
    await fleet.stop();
  });

  it("names those that do nothing, from their start and from each mark on", async () => {
    const reads = (count: number) => `process.send({ kind: "counts", counts: { read: ${count} } });`;
    const script = `setTimeout(() => {${reads(3)}}, 100); process.on("message", () => process.exit(0));`;
    const fleet = fleetOf([process.execPath, "-e", script]);
    expect({ isGoing: fleet.isGoing, idle: fleet.idle }).toEqual({ isGoing: false, idle: ["reader-1"] });
    await expect.poll(() => fleet.isGoing).toBe(true);
    fleet.mark();
    expect(fleet.idle).toEqual(["reader-1"]);
    await fleet.stop();
  });

  it("has nothing to say of one that ends when it is told to", async () => {
    const fleet = fleetOf(OBEDIENT);
    expect(await fleet.stop()).toEqual([]);
    expect(fleet.bugs).toEqual([]);
  });
});
