// What a broker is to be in a partition, by the metadata alone.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { mayFetchAnew, wantedRole } from "../../src/broker/wanted-role.ts";
import type { BrokerImage, MetadataImage, PartitionImage } from "../../src/metadata/image.ts";
import { type IncarnationId, type LeaderEpoch, type NodeId, toNodeId } from "../../src/model/ids.ts";

const [ME, OTHER, THIRD] = [1, 2, 3].map(toNodeId) as [NodeId, NodeId, NodeId];
const MINE = "mine" as IncarnationId;
const SELF = { nodeId: ME, incarnationId: MINE };

const imageWith = (broker: Partial<BrokerImage> | undefined): MetadataImage =>
  ({ broker: () => broker }) as unknown as MetadataImage;
const partitionOf = (change: Partial<PartitionImage>): PartitionImage => ({
  index: 0,
  replicas: [ME, OTHER, THIRD],
  isr: [OTHER, THIRD],
  elr: [],
  minIsr: 2,
  leader: OTHER,
  leaderEpoch: 4 as LeaderEpoch,
  partitionEpoch: 7,
  uncleanEpoch: -1,
  ...change,
});

afterEach(() => activateMutants([]));

describe("the wanted role", () => {
  const active = imageWith({ incarnationId: MINE, isFenced: false });
  const fenced = imageWith({ incarnationId: MINE, isFenced: true });
  const replaced = imageWith({ incarnationId: "another" as IncarnationId, isFenced: false });

  test.each([
    ["led by another", active, { leader: OTHER }, "follower"],
    ["led by another, while fenced: it follows all the same (R-66)", fenced, { leader: OTHER }, "follower"],
    ["led by this one", active, { leader: ME }, "leader"],
    ["led by this one, while fenced", fenced, { leader: ME }, "stand-by"],
    ["led by nobody", active, { leader: null }, "stand-by"],
    ["led by this node id in another process (D-1)", replaced, { leader: ME }, "stand-by"],
    ["led by another, this node id in another process", replaced, { leader: OTHER }, "stand-by"],
    ["not registered", imageWith(undefined), { leader: ME }, "stand-by"],
  ] as const)("%s", (_, image, change, kind) => {
    expect(wantedRole(image, SELF, partitionOf(change), false).kind).toBe(kind);
  });

  test("a damaged replica stands by, whoever leads (D-17)", () => {
    for (const leader of [ME, OTHER, null])
      expect(wantedRole(active, SELF, partitionOf({ leader }), true)).toEqual({
        kind: "stand-by",
        error: "STORAGE_ERROR",
      });
  });

  test("D1-broker: without the rule an epoch of another process is taken for one's own", () => {
    activateMutants(["D1-broker"]);
    expect(wantedRole(replaced, SELF, partitionOf({ leader: ME }), false).kind).toBe("leader");
  });
});

test("D-17: a damaged replica is fetched anew when another one leads and nobody counts on it", () => {
  expect(mayFetchAnew(partitionOf({}), ME)).toBe(true);
  for (const change of [{ leader: null }, { leader: ME }, { isr: [ME, OTHER] }, { elr: [ME] }])
    expect(mayFetchAnew(partitionOf(change), ME)).toBe(false);
});
