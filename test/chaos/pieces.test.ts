// The small parts that a verdict rests on: who is struck, when leadership changed, whether replicas are the same, whether a process has grown.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { missingOf } from "../../src/chaos/capabilities.ts";
import type { ChaosCluster } from "../../src/chaos/cluster-types.ts";
import { EpochWatch } from "../../src/chaos/epoch-watch.ts";
import { grownBeyond, usageOf } from "../../src/chaos/process-usage.ts";
import { difference, sumOfReplica } from "../../src/chaos/replica-compare.ts";
import { minorityOf, resolveTarget } from "../../src/chaos/targets.ts";

const directory = mkdtempSync(join(tmpdir(), "ottla-pieces-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe("targets", () => {
  const cluster = {
    nodes: [1, 2, 3, 4, 5].map((nodeId) => ({ nodeId })),
    leaderOf: () => Promise.resolve(2),
    controller: () => Promise.resolve(undefined),
  } as unknown as ChaosCluster;
  const at = { place: { topic: "t", partition: 0 }, rng: createRng(1) };

  it("are as many as the name says", async () => {
    expect(await resolveTarget(cluster, "leader", at)).toEqual([2]);
    expect(await resolveTarget(cluster, "controller", at)).toEqual([]);
    expect(await resolveTarget(cluster, "minority", at)).toHaveLength(2);
    expect(await resolveTarget(cluster, "majority", at)).toHaveLength(3);
    expect(await resolveTarget(cluster, "all", at)).toEqual([1, 2, 3, 4, 5]);
  });

  it("never takes the leader for a follower", async () => {
    for (let draw = 0; draw < 50; draw++) expect(await resolveTarget(cluster, "follower", at)).not.toContain(2);
  });

  it.each([
    [1, 0],
    [3, 1],
    [4, 1],
    [5, 2],
  ])("of %i nodes %i may be away", (nodes, away) => {
    expect(minorityOf(nodes)).toBe(away);
  });
});

describe("epoch watch", () => {
  function watched(epochs: readonly (readonly number[])[]): EpochWatch {
    const looks = [...epochs];
    const describeMetadata = () => {
      const partitions = (looks.shift() ?? []).map((leaderEpoch, index) => ({ index, leaderEpoch }));
      return Promise.resolve({ topics: [{ name: "a/b", partitions }] });
    };
    const client = () => Promise.resolve({ admin: () => ({ describeMetadata }) });
    return new EpochWatch({ client } as unknown as ChaosCluster);
  }

  it("tells the stretch in which the leader changed, of that partition only", async () => {
    const watch = watched([
      [1, 1],
      [2, 1],
      [2, 1],
    ]);
    for (let look = 0; look < 3; look++) await watch.look(["a/b"]);
    const events = watch.events();
    expect(events.map((event) => event.type === "leadership" && [event.topic, event.partition, event.leaders])).toEqual(
      [
        ["a/b", 0, 2],
        ["a/b", 0, 1],
      ],
    );
  });

  it("makes one stretch of changes that follow each other", async () => {
    const watch = watched([[1], [2], [3]]);
    for (let look = 0; look < 3; look++) await watch.look(["a/b"]);
    expect(watch.events()).toHaveLength(2);
  });
});

describe("replicas", () => {
  function replicaOf(node: string, segments: Readonly<Record<string, string>>) {
    const dataDir = join(directory, node);
    mkdirSync(join(dataDir, "t-0"), { recursive: true });
    for (const [name, text] of Object.entries(segments)) writeFileSync(join(dataDir, "t-0", name), text);
    return sumOfReplica(dataDir, { topic: "t", partition: 0 });
  }
  const FIRST = "00000000000000000000.log";
  const SECOND = "00000000000000000002.log";

  it("are the same wherever their segments are cut, and whatever lies beside them", () => {
    const whole = replicaOf("one", { [FIRST]: "abcd", "00000000000000000000.index": "x" });
    const cut = replicaOf("two", { [FIRST]: "ab", [SECOND]: "cd" });
    expect(
      difference(
        new Map([
          [1, whole],
          [2, cut],
        ]),
      ),
    ).toBeUndefined();
  });

  it("differ by one byte, and by being away", () => {
    const one = replicaOf("three", { [FIRST]: "abcd" });
    const other = replicaOf("four", { [FIRST]: "abce" });
    expect(
      difference(
        new Map([
          [1, one],
          [2, other],
        ]),
      ),
    ).toContain("node 2");
    expect(
      difference(
        new Map([
          [1, one],
          [2, undefined],
        ]),
      ),
    ).toContain("has none");
    expect(
      difference(
        new Map([
          [1, undefined],
          [2, undefined],
        ]),
      ),
    ).toContain("has none");
  });
});

describe("usage", () => {
  const MiB = 1024 * 1024;
  const steady = { rssBytes: 100 * MiB, descriptors: 50 };

  it("is known of this process, and not of one that there is not", () => {
    expect(usageOf(process.pid)?.rssBytes).toBeGreaterThan(MiB);
    expect(usageOf(2 ** 30)).toBeUndefined();
  });

  it("may move a little, and no more", () => {
    expect(grownBeyond(steady, { rssBytes: 150 * MiB, descriptors: 60 })).toBeUndefined();
    expect(grownBeyond(steady, { rssBytes: 400 * MiB, descriptors: 60 })).toContain("memory");
    expect(grownBeyond(steady, { rssBytes: 100 * MiB, descriptors: 200 })).toContain("descriptors");
  });
});

describe("capabilities", () => {
  it("are missing where nobody looked for them", () => {
    const here = new Map([["signals", { name: "signals", says: "", missing: null }] as const]);
    expect(missingOf(["signals"], here)).toEqual([]);
    expect(missingOf(["signals", "compiler"], here)).toEqual(["compiler: not looked for"]);
  });
});
