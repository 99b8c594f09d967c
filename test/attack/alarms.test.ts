// Each alarm of an attack, and of a crowd, goes off when what it is there for happens. That of a crowd's latency is in crowd.test.ts: a ratio of times.
import { beforeAll, describe, expect, it } from "vitest";
import { attack } from "../../scripts/attack/attack.ts";
import { crowded } from "../../scripts/attack/crowd.ts";
import type { Plant } from "../../scripts/attack/node.ts";
import { ensureBuilt } from "../cli/support.ts";

const SEED = 20_261_130;

beforeAll(ensureBuilt);

describe("each alarm goes off: of an attack", () => {
  it.each<[string, Partial<Record<Plant, RegExp>>]>([
    ["a node that ends", { crash: /^crash: the node ended with / }],
    ["connections cut", { cut: /^a bystander's connection was cut/ }],
    ["answers that are none", { garble: /^an answer that cannot be read/ }],
    // No one of these brings another one's words.
    [
      "a wait, memory, and files once the node has stopped",
      {
        hang: /^hang: a bystander waited \d{4,} ms/,
        leak: /^growth: \d+ MiB after the warm-up, \d+ MiB at the end/,
        rot: /^ottla log verify ended with/,
      },
    ],
  ])("%s", async (_, planted) => {
    const { faults } = await attack({ seed: SEED, frames: 600, sequences: 5, plants: Object.keys(planted) as Plant[] });
    for (const alarm of Object.values(planted)) expect(faults).toContainEqual(expect.stringMatching(alarm));
  });
});

describe("each alarm goes off: of a crowd", () => {
  it.each<[Plant, number, RegExp]>([
    ["leak", 200, /^memory: /],
    ["hoard", 200, /^heap: \d+ MiB, 160 are allowed/],
  ])("%s by %d", async (plant, slow, alarm) => {
    const { faults } = await crowded({ slow, idle: 10, rounds: 1, roundMs: 1_000, plant });
    expect(faults).toContainEqual(expect.stringMatching(alarm));
  });
});
