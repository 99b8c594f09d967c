// Shrinking of a failing seed: what is not needed goes, what is needed stays, and the command replays what is left.
import { afterEach, describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { activateMutants } from "../../src/base/mutant.ts";
import { createRng } from "../../src/base/rng.ts";
import { parseReduction, type Reduction, reduced, reductionText } from "../../src/sim/reduction.ts";
import { runSeed } from "../../src/sim/run-seed.ts";
import { type ShrinkRun, shrink, type Shrunk } from "../../src/sim/shrink.ts";
import { drawSwarm, type SwarmConfig } from "../../src/sim/swarm.ts";

const host = await createSimHost();
const SWARM = drawn({ voters: 5, observers: 1 });

function drawn(cluster: SwarmConfig["cluster"]): SwarmConfig {
  const swarm = drawSwarm(createRng(1), host.baseConfig);
  const faults = Object.fromEntries(Object.keys(swarm.faults).map((name) => [name, 1000]));
  const [client] = swarm.clients;
  if (client === undefined) throw new Error("no client");
  return {
    ...swarm,
    cluster,
    faults: faults as unknown as SwarmConfig["faults"],
    clients: [client, client, client],
    metadata: { ...swarm.metadata, clients: 3 },
    topics: 3,
    partitionsMax: 4,
    replicasMax: 5,
  };
}

const CLEAN: ShrinkRun = { violations: [], failure: undefined, simulatedMs: 60_000, acts: [] };
const ACTS = Array.from({ length: 12 }, (_, at) => `cut#${at + 1}`);

/** Shrinks a world that fails where `isBroken` says so, after 5,000 ms. */
async function shrunkWhere(
  isBroken: (swarm: SwarmConfig) => number | undefined,
  mayGoOn = () => true,
): Promise<Shrunk> {
  const shrunk = await shrink({
    swarm: SWARM,
    mayGoOn,
    run: (reduction: Reduction) => {
      const swarm = reduced(SWARM, reduction);
      const invariant = swarm.safetyMs < 5000 ? undefined : isBroken(swarm);
      const acts = swarm.acts ?? ACTS;
      if (invariant === undefined) return Promise.resolve({ ...CLEAN, acts });
      return Promise.resolve({ ...CLEAN, simulatedMs: 5000, acts, violations: [{ invariant, message: "broken" }] });
    },
  });
  if (shrunk === undefined) throw new Error("nothing failed");
  return shrunk;
}

describe("shrinking", () => {
  it("takes away everything where nothing is needed", async () => {
    const { reduction } = await shrunkWhere(() => 1);
    expect(reduced(SWARM, reduction)).toMatchObject({
      safetyMs: 5001,
      cluster: { voters: 1, observers: 0 },
      topics: 1,
      partitionsMax: 1,
      replicasMax: 1,
      deleteTopicMs: 0,
      acts: [],
      metadata: { clients: 0 },
    });
  });

  it("keeps what is needed: nodes, replicas, a client, two acts of many", async () => {
    const { reduction, last } = await shrunkWhere(({ cluster, replicasMax, clients, acts = ACTS }) =>
      cluster.voters >= 3 &&
      replicasMax >= 2 &&
      clients.length >= 2 &&
      acts.includes("cut#3") &&
      acts.includes("cut#11")
        ? 13
        : undefined,
    );
    expect(reduction).toMatchObject({ voters: 3, observers: 0, replicas: 2, clients: 2, acts: ["cut#3", "cut#11"] });
    expect(last.violations[0]?.invariant).toBe(13);
  });

  it("does not take another failure for the same one", async () => {
    const { reduction } = await shrunkWhere(({ cluster }) => (cluster.voters === 5 ? 13 : 1));
    expect(reduction.voters).toBeUndefined();
  });

  it("keeps the one fault class that matters", async () => {
    const { reduction } = await shrunkWhere(({ faults, acts }) =>
      faults.wipeMs > 0 && acts?.length !== 0 ? 1 : undefined,
    );
    expect(reduction.off).not.toContain("wipeMs");
    expect(reduction.off?.length).toBe(Object.keys(SWARM.faults).length - 1);
    expect(reduction.acts?.length).toBe(1);
  });

  it("ends when time is up, and with nothing where nothing fails", async () => {
    let left = 3;
    const { runs } = await shrunkWhere(
      () => 1,
      () => left-- > 0,
    );
    expect(runs).toBe(4);
    expect(await shrink({ swarm: SWARM, mayGoOn: () => true, run: () => Promise.resolve(CLEAN) })).toBeUndefined();
  });
});

describe("a reduced scenario on a command line", () => {
  it("comes back as it was", () => {
    const reduction: Reduction = {
      safetyMs: 4200,
      voters: 3,
      observers: 0,
      clients: 1,
      metadataClients: 0,
      topics: 1,
      partitions: 2,
      replicas: 3,
      isQuiet: true,
      off: ["cutMs", "pauseMs"],
      acts: ["power loss#2", "cut#1"],
    };
    expect(parseReduction(reductionText(reduction))).toEqual(reduction);
    expect(parseReduction(reductionText({ acts: [] }))).toEqual({ acts: [] });
    expect(parseReduction("")).toEqual({});
    expect(() => parseReduction("nodes=3")).toThrow(RangeError);
  });
});

describe("a planted bug", () => {
  afterEach(() => activateMutants([]));

  it("is shown by a short scenario", async () => {
    activateMutants(["M5"]);
    let swarm: SwarmConfig | undefined;
    const run = (reduction: Reduction): Promise<ShrinkRun> =>
      runSeed(5, {
        host,
        codecs: host.codecs,
        baseConfig: host.baseConfig,
        adjust: (seen) => {
          swarm ??= { ...seen, safetyMs: 5000 };
          return reduced(swarm, reduction);
        },
      });
    await run({ safetyMs: 0, acts: [] });
    if (swarm === undefined) throw new Error("nothing was drawn");
    let runs = 0;
    const shrunk = await shrink({ run, swarm, mayGoOn: () => runs++ < 12 });
    expect(shrunk?.last.violations[0]?.invariant).toBe(9);
    expect(shrunk?.reduction.acts).toEqual([]);
    expect(shrunk?.reduction.safetyMs).toBeLessThan(3000);
  });
});
