// Random histories of several brokers: at any point the image is sound, equals its snapshot and its replay, and its epochs only grow.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesEqual } from "../../src/base/bytes.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { DirectoryId, NodeId, TopicId } from "../../src/model/ids.ts";
import * as controller from "../../src/metadata/controller.ts";
import { MetadataImage, type PartitionImage } from "../../src/metadata/image.ts";
import { History, directoryOf, faultsOf, node, replayed, uuid } from "./support.ts";

const NODES = [1, 2, 3, 4];
const NAMES = ["a", "b", "c.d", "c_d", "e"];

/** What epochs were when last looked at. */
interface Seen {
  /** Ids and named ids given, and the newest epoch of each name's id. */
  readonly producers: { nextId: number; nextNamedId: number; readonly epochs: Map<number, number> };
  readonly epochs: Map<string, { leaderEpoch: number; partitionEpoch: number; leader: NodeId | null; broker: number }>;
  readonly brokers: Map<NodeId, number>;
}

/** One step of a cluster's life, by chance; what is refused changes nothing. */
function step(history: History, rng: Rng): void {
  const nodeId = rng.pick(NODES);
  const name = rng.pick(NAMES);
  const { image } = history;
  const attempt = (decision: controller.Decision): void => {
    if (decision.kind === "records") history.take(decision);
  };
  const size = String(1024 + rng.below(3));
  const change = { key: "segment.bytes", value: rng.chance(0.3) ? null : size };
  const steps: readonly (() => void)[] = [
    () => attempt(history.wishTopic(name, shape(rng))),
    () => attempt(history.wishTopic(name, shape(rng))),
    () => attempt(controller.decideDeletion(image, name)),
    () => attempt(removal(image, rng)),
    () => attempt(settlement(image, node(nodeId))),
    () => attempt(registration(history, nodeId, rng)),
    () => attempt(history.wishUnfence(nodeId)),
    () => attempt(history.wishUnfence(nodeId)),
    () => attempt(history.wishUnfence(nodeId)),
    () => attempt(isrWish(history, rng)),
    () => attempt(isrWish(history, rng)),
    () => attempt(isrWish(history, rng)),
    () => attempt(damage(history, nodeId, rng)),
    () => attempt(election(image, rng)),
    () => attempt(controller.decideBalance(image, { max: 2, isSteady: () => rng.chance(0.8) })),
    () => attempt(minIsr(image, rng.chance(0.5) ? name : null, rng)),
    () => attempt(history.wishFence(NODES.filter(() => rng.chance(0.4)))),
    () => attempt(controller.decideTopicConfigs(image, { name, changes: [change] })),
    () => attempt(controller.decideBrokerConfigs(image, { nodeId: node(nodeId), changes: [change] })),
    () => attempt(controller.decideBrokerConfigs(image, { nodeId: null, changes: [change] })),
    () => attempt(controller.decideMetadataVersion(image, { version: rng.chance(0.1) ? 2 : 1 })),
    () =>
      attempt({
        kind: "records",
        records: [{ type: "request", version: 1, requestId: fresh(history), topicId: null }],
      }),
    () => attempt(blockOfIds(image, nodeId, rng)),
    () => attempt(named(history, name, rng)),
    () => attempt(recovery(rng)),
    () => history.skip(),
  ];
  rng.pick(steps)();
}

function shape(rng: Rng): { partitions: number; replicationFactor: number; partitionsMax: number } {
  return { partitions: 1 + rng.below(6), replicationFactor: 1 + rng.below(NODES.length), partitionsMax: 40 };
}

/** A wish as a leader might make it: any ISR, sometimes from an older state. */
function isrWish(history: History, rng: Rng): controller.Decision {
  const led = [...history.image.topics].flatMap(({ name, partitions }) =>
    partitions.filter(({ leader }) => leader !== null).map((partition) => ({ name, partition })),
  );
  if (led.length === 0) return { kind: "records", records: [] };
  const { name, partition } = rng.pick(led);
  const isr = partition.replicas.filter((replica) => replica === partition.leader || rng.chance(0.6));
  const partitionEpoch = partition.partitionEpoch - (rng.chance(0.1) ? 1 : 0);
  return history.wishIsr(name, partition.index, isr, { partitionEpoch, wantsMove: rng.chance(0.2) });
}

function damage(history: History, nodeId: number, rng: Rng): controller.Decision {
  const broker = history.image.broker(node(nodeId));
  if (broker === undefined) return { kind: "records", records: [] };
  const partitions = [...history.image.partitionsOn(node(nodeId))]
    .filter(() => rng.chance(0.2))
    .map(({ topic, partition }) => ({ topicId: topic.topicId, partition: partition.index }));
  return controller.decideDamage(history.image, { nodeId: node(nodeId), brokerEpoch: broker.brokerEpoch, partitions });
}

function election(image: MetadataImage, rng: Rng): controller.Decision {
  const partitions = [...image.topics].flatMap(({ topicId, partitions: all }) =>
    all.filter(() => rng.chance(0.3)).map(({ index }) => ({ topicId, partition: index })),
  );
  const kind = rng.chance(0.3) ? "preferred" : "unclean";
  const nodeId = rng.chance(0.5) ? null : node(rng.pick(NODES));
  return controller.decideElections(image, { kind, partitions, nodeId, isForced: true }).decision;
}

function minIsr(image: MetadataImage, name: string | null, rng: Rng): controller.Decision {
  const changes = [{ key: "min.insync.replicas", value: rng.chance(0.3) ? null : String(1 + rng.below(4)) }];
  return name === null
    ? controller.decideBrokerConfigs(image, { nodeId: null, changes })
    : controller.decideTopicConfigs(image, { name, changes });
}

function fresh(history: History): ReturnType<typeof uuid> {
  return uuid(100_000 + history.image.endOffset);
}

function blockOfIds(image: MetadataImage, nodeId: number, rng: Rng): controller.Decision {
  const brokerEpoch = (image.broker(node(nodeId))?.brokerEpoch ?? -1) - (rng.chance(0.2) ? 1 : 0);
  return controller.decideProducerIds(image, { nodeId: node(nodeId), brokerEpoch });
}

/** Three names at most, each forgotten after a while; who goes on may be whoever, or may ask twice. */
function named({ image }: History, name: string, rng: Rng): controller.Decision {
  const known = image.producerIds.byName(name);
  const from = known === undefined || rng.chance(0.4) ? undefined : known;
  const older = rng.chance(0.3) ? 1 : 0;
  return controller.decideNamedProducer(image, {
    name,
    producerId: from?.producerId ?? -1,
    producerEpoch: from === undefined ? -1 : Math.max(0, from.producerEpoch - older),
    nowMs: image.endOffset,
    namesMax: 3,
    expirationMs: 10,
  }).decision;
}

/** Seldom. */
function recovery(rng: Rng): controller.Decision {
  const record = { type: "unsafe-recovery", version: 1, epochsRaisedBy: 1_000, timestampMs: 1 } as const;
  return { kind: "records", records: rng.chance(0.1) ? [record] : [] };
}

function removal(image: MetadataImage, rng: Rng): controller.Decision {
  const going = [...image.topics].filter(({ isDeleting }) => isDeleting);
  const topicId = going.length === 0 ? (uuid(1) as TopicId) : rng.pick(going).topicId;
  return controller.decideRemoval(image, topicId, NODES.filter(() => rng.chance(0.7)).map(node));
}

function settlement(image: MetadataImage, nodeId: NodeId): controller.Decision {
  const topicIds = [...image.tombstones].map(({ topicId }) => topicId);
  return controller.decideSettled(image, { nodeId, topicIds });
}

function registration(history: History, nodeId: number, rng: Rng): controller.Decision {
  const known = history.image.broker(node(nodeId));
  const isSwapped = rng.chance(0.1);
  const directoryId = isSwapped
    ? (uuid(7_000 + history.image.endOffset) as DirectoryId)
    : (known?.directoryId ?? directoryOf(nodeId));
  const isOlder = known?.confirmedEpoch !== null && rng.chance(0.1);
  return history.wishRegistration(nodeId, {
    directoryId,
    restart: rng.pick(["clean", "process-death", "power-loss"]),
    hasLiveSession: rng.chance(0.5),
    ...(isOlder ? { storedBrokerEpoch: 0 } : {}),
  });
}

/** Epochs only grow, and never is one leader epoch of two leaders or of two incarnations of one (D-1). */
function assertEpochs(image: MetadataImage, seen: Seen): void {
  for (const { nodeId, brokerEpoch } of image.brokers) {
    expect(brokerEpoch).toBeGreaterThanOrEqual(seen.brokers.get(nodeId) ?? 0);
    seen.brokers.set(nodeId, brokerEpoch);
  }
  for (const { topicId, partitions } of image.topics) {
    for (const { index, leaderEpoch, partitionEpoch, leader } of partitions) {
      const key = `${topicId}-${index}`;
      const before = seen.epochs.get(key);
      const broker = leader === null ? -1 : (image.broker(leader)?.brokerEpoch ?? -1);
      if (before !== undefined) {
        expect(leaderEpoch).toBeGreaterThanOrEqual(before.leaderEpoch);
        expect(partitionEpoch).toBeGreaterThanOrEqual(before.partitionEpoch);
        const isSameReign = before.leader === leader && before.broker === broker;
        if (!isSameReign) expect(leaderEpoch).toBeGreaterThan(before.leaderEpoch);
      }
      seen.epochs.set(key, { leaderEpoch, partitionEpoch, leader, broker });
    }
  }
}

/** P-17: no id is given twice, no epoch of a name's id comes back, and what a name has left behind is fenced for ever (invariant 24). */
function assertProducers({ producerIds }: MetadataImage, { producers }: Seen): void {
  expect(producerIds.nextId).toBeGreaterThanOrEqual(producers.nextId);
  expect(producerIds.nextNamedId).toBeGreaterThanOrEqual(producers.nextNamedId);
  const present = new Map([...producerIds.named].map(({ producerId, producerEpoch }) => [producerId, producerEpoch]));
  expect(present.size).toBe(producerIds.size);
  for (const [producerId, producerEpoch] of present) {
    const before = producers.epochs.get(producerId);
    if (before === undefined) expect(producerId).toBeGreaterThanOrEqual(producers.nextNamedId);
    else expect(producerEpoch).toBeGreaterThanOrEqual(before);
    producers.epochs.set(producerId, producerEpoch);
    expect(producerIds.verdictOn(producerId, producerEpoch)).toBe("taken");
    expect(producerIds.verdictOn(producerId, producerEpoch + 1)).toBe("ahead");
  }
  for (const [producerId, producerEpoch] of producers.epochs) {
    expect(producerIds.verdictOn(producerId, producerEpoch - 1)).toBe("fenced");
    if (!present.has(producerId)) expect(producerIds.verdictOn(producerId, 32_766)).toBe("fenced");
  }
  producers.nextId = producerIds.nextId;
  producers.nextNamedId = producerIds.nextNamedId;
}

/** What a broker goes by: exactly the partitions that the last command changed. */
function assertTouched(image: MetadataImage, before: ReadonlyMap<string, PartitionImage>): void {
  const touched = [...image.touched].map(({ topic, index }) => `${topic.topicId}-${index}`).sort();
  const after = partitionsOf(image);
  const keys = new Set([...before.keys(), ...after.keys()]);
  expect(touched).toEqual([...keys].filter((key) => before.get(key) !== after.get(key)).sort());
}

function partitionsOf(image: MetadataImage): Map<string, PartitionImage> {
  const places = [...image.topics].flatMap(({ topicId, partitions }) =>
    partitions.map((partition) => [`${topicId}-${partition.index}`, partition] as const),
  );
  return new Map(places);
}

/** States that a weak generator would not reach. */
function mark(image: MetadataImage, marks: Set<string>): void {
  for (const { partitions } of image.topics) {
    for (const { replicas, isr, elr, leader, minIsr, uncleanEpoch } of partitions) {
      if (isr.length > 0 && elr.length > 0) marks.add("led beside eligible ones");
      if (leader === null && elr.length > 1) marks.add("several eligible, nobody in sync");
      if (leader === null && elr.length === 0) marks.add("nobody intact");
      if (uncleanEpoch >= 0 && isr.length > 1) marks.add("grown after an unclean election");
      if (isr.length > 0 && isr.length < minIsr) marks.add("below min ISR");
      if (replicas.length > 2 && isr.length === replicas.length && leader !== replicas[0]) marks.add("astray");
    }
  }
}

function assertSame(left: MetadataImage, right: MetadataImage): void {
  expect(right.stateHash()).toBe(left.stateHash());
  expect(bytesEqual(right.encode(), left.encode())).toBe(true);
}

describe("random histories", () => {
  test("invariant 39 and every guarantee, after each of up to 120 steps", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0 }), fc.integer({ min: 1, max: 120 }), (seed, steps) => {
        const rng = createRng(seed);
        const history = History.started(NODES.slice(0, 1 + rng.below(NODES.length)));
        const seen: Seen = {
          epochs: new Map(),
          brokers: new Map(),
          producers: { nextId: 0, nextNamedId: 0, epochs: new Map() },
        };
        let known = partitionsOf(history.image);
        // A node that was restarted: from some snapshot and the log after it.
        let follower = new MetadataImage();
        for (let at = 0; at < steps; at++) {
          const { endOffset } = history.image;
          step(history, rng);
          if (history.image.endOffset > endOffset) assertTouched(history.image, known);
          known = partitionsOf(history.image);
          expect(faultsOf(history.image)).toEqual([]);
          assertEpochs(history.image, seen);
          assertProducers(history.image, seen);
          if (rng.chance(0.1)) follower = replayed(history.entries, follower.endOffset > 0 ? follower.encode() : null);
          if (rng.chance(0.1)) assertSame(history.image, MetadataImage.load(history.image.encode()));
          // From now on the controller is a node that began from a snapshot.
          if (rng.chance(0.05)) {
            history.image = MetadataImage.load(history.image.encode());
            expect(history.image.touched.size).toBe(0);
            known = partitionsOf(history.image);
          }
        }
        assertSame(history.image, replayed(history.entries));
        assertSame(history.image, replayed(history.entries, follower.endOffset > 0 ? follower.encode() : null));
      }),
      { numRuns: 120 },
    );
  });

  test("such histories come to every state that the rules are about", () => {
    const marks = new Set<string>();
    for (let seed = 1; seed <= 100; seed++) {
      const rng = createRng(seed);
      const history = History.started(NODES.slice(0, 1 + rng.below(NODES.length)));
      for (let at = 0; at < 120; at++) {
        step(history, rng);
        mark(history.image, marks);
      }
    }
    expect([...marks].sort()).toEqual([
      "astray",
      "below min ISR",
      "grown after an unclean election",
      "led beside eligible ones",
      "nobody intact",
      "several eligible, nobody in sync",
    ]);
  });

  test("equal hashes mean equal bytes, unequal ones unequal bytes, over all states of a history", () => {
    const rng = createRng(3);
    const history = History.started(NODES);
    const bytesOf = new Map<string, Uint8Array>();
    for (let at = 0; at < 400; at++) {
      step(history, rng);
      const hash = history.image.stateHash();
      const bytes = history.image.encode();
      const before = bytesOf.get(hash);
      if (before !== undefined) expect(bytesEqual(before, bytes)).toBe(true);
      bytesOf.set(hash, bytes);
    }
    const texts = new Set([...bytesOf.values()].map((bytes) => bytes.join()));
    expect(texts.size).toBe(bytesOf.size);
    expect(texts.size).toBeGreaterThan(150);
  });

  test("after everything came back, every tombstone settles and every partition that anybody holds has a leader", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0 }), (seed) => {
        const rng = createRng(seed);
        const history = History.started(NODES);
        for (let at = 0; at < 80; at++) step(history, rng);
        for (const nodeId of NODES) {
          history.join(nodeId);
          history.take(settlement(history.image, node(nodeId)));
        }
        for (const topic of [...history.image.topics].filter(({ isDeleting }) => isDeleting))
          history.take(controller.decideRemoval(history.image, topic.topicId, NODES.map(node)));
        expect(history.image.tombstoneCount).toBe(0);
        expect([...history.image.topics].every(({ isDeleting }) => !isDeleting)).toBe(true);
        for (const { partitions } of history.image.topics)
          for (const { leader, elr } of partitions) expect(leader !== null || elr.length === 0).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
});
