// Partitions of several replicas: who is in sync, eligible and leads after each event (R-34, R-53 to R-61, D-5, D-6, D-8, D-17).
import { describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { DirectoryId } from "../../src/model/ids.ts";
import {
  decideAlterPartition,
  decideBalance,
  decideDamage,
  decideRelief,
  decideTopicConfigs,
} from "../../src/metadata/controller.ts";
import { History, faultsOf, node, replayed, uuid } from "./support.ts";

const NOTHING = { kind: "records", records: [] };

/** Topic "a" with one partition on all the brokers, each in sync, the first leads. */
function replicated(nodeIds: readonly number[] = [1, 2, 3], minIsr?: number): History {
  const history = History.started(nodeIds);
  const configs = minIsr === undefined ? [] : [{ key: "min.insync.replicas", value: String(minIsr) }];
  history.create("a", { replicationFactor: nodeIds.length, configs });
  return history;
}

/** What each step made of the partition. */
function story(history: History, ...steps: readonly (() => void)[]): string[] {
  return steps.map((step) => {
    step();
    expect(faultsOf(history.image)).toEqual([]);
    return history.standing("a");
  });
}

describe("fencing and return (R-53 to R-56)", () => {
  test("the ISR shrinks; who leaves a small ISR is eligible; the first who is back leads, and a full ISR clears the ELR", () => {
    const history = replicated();
    const told = story(
      history,
      () => history.fence(1),
      () => history.fence(2),
      () => history.fence(3),
      () => history.unfence(1),
      () => history.unfence(2),
      () => history.unfence(3),
      () => history.alter("a", 0, [3, 2]),
      () => history.alter("a", 0, [1, 2, 3]),
    );
    expect(told).toEqual([
      "2@1 [2 3] []",
      "3@2 [3] [2]",
      "-@3 [] [2 3]",
      "-@3 [] [2 3]",
      "2@4 [2] [3]",
      "2@4 [2] [3]",
      "2@4 [2 3] []",
      "2@4 [1 2 3] []",
    ]);
    expect(history.partition("a")).toMatchObject({ partitionEpoch: 6, uncleanEpoch: -1 });
    expect(replayed(history.entries).encode()).toEqual(history.image.encode());
  });

  test("with min ISR 1 only the last one in sync is eligible", () => {
    const history = replicated([1, 2], 1);
    const told = story(
      history,
      () => history.fence(1),
      () => history.fence(2),
      () => history.unfence(1),
      () => history.unfence(2),
    );
    expect(told).toEqual(["2@1 [2] []", "-@2 [] [2]", "-@2 [] [2]", "2@3 [2] []"]);
  });

  test("leader and followers gone in one command", () => {
    const history = replicated();
    expect(story(history, () => history.fence(1, 2, 3))).toEqual(["-@3 [] [2 3]"]);
  });

  test("a broker that is fenced while it is eligible changes nothing", () => {
    const history = replicated();
    history.fence(1);
    history.alter("a", 0, [2]);
    const before = history.partition("a");
    expect(history.standing("a")).toBe("2@1 [2] [3]");
    history.fence(3);
    expect(history.partition("a")).toBe(before);
    expect(history.image.touched.size).toBe(0);
  });
});

describe("restarts (D-1, D-6)", () => {
  test("a follower that registers again leaves the ISR and is eligible where that is too small; its return alone brings it back nowhere", () => {
    const history = replicated([1, 2]);
    const told = story(
      history,
      () => history.register(2, { restart: "power-loss", hasLiveSession: true }),
      () => history.unfence(2),
      () => history.alter("a", 0, [1, 2]),
    );
    expect(told).toEqual(["1@0 [1] [2]", "1@0 [1] [2]", "1@0 [1 2] []"]);
  });

  test("a leader that registers again hands over in that record", () => {
    const history = replicated();
    const told = story(
      history,
      () => history.register(1, { restart: "process-death", hasLiveSession: true }),
      () => history.unfence(1),
    );
    expect(told).toEqual(["2@1 [2 3] []", "2@1 [2 3] []"]);
  });

  test("a power loss of all ends with the partition back by itself", () => {
    const history = replicated();
    const restart = "power-loss" as const;
    const told = story(
      history,
      ...[3, 2, 1].map((nodeId) => () => void history.register(nodeId, { restart })),
      ...[3, 1, 2].map((nodeId) => () => void history.unfence(nodeId)),
    );
    expect(told).toEqual(["1@0 [1 2] []", "1@0 [1] [2]", "-@1 [] [1 2]", "-@1 [] [1 2]", "1@2 [1] [2]", "1@2 [1] [2]"]);
  });

  test("another disk is in neither ISR nor ELR; with nobody left nobody leads, whoever is back", () => {
    const history = replicated([1, 2]);
    let disks = 0;
    const swapped = (nodeId: number) => () =>
      history.join(nodeId, { directoryId: uuid(8000 + disks++) as DirectoryId, storedBrokerEpoch: null });
    const told = story(
      history,
      () => history.fence(2),
      swapped(2),
      () => history.fence(1),
      swapped(1),
    );
    expect(told).toEqual(["1@0 [1] [2]", "1@0 [1] []", "-@1 [] [1]", "-@1 [] []"]);
    expect(
      story(
        history,
        () => history.join(1),
        () => history.join(2),
      ),
    ).toEqual(["-@1 [] []", "-@1 [] []"]);
  });

  test("an unregistered broker is eligible nowhere", () => {
    const history = replicated([1, 2]);
    history.fence(2);
    const { brokerEpoch } = history.broker(2);
    const record = { type: "unregister-broker", version: 1, nodeId: node(2), brokerEpoch } as const;
    expect(story(history, () => history.force(record))).toEqual(["1@0 [1] []"]);
  });

  test("an unsafe recovery makes all who were in sync eligible; what is missing since then is on record", () => {
    const history = replicated();
    history.fence(3);
    const record = { type: "unsafe-recovery", version: 1, epochsRaisedBy: 100, timestampMs: 1 } as const;
    const told = story(
      history,
      () => history.force(record),
      () => history.unfence(2),
    );
    expect(told).toEqual(["-@100 [] [1 2]", "2@101 [2] [1]"]);
    expect(history.partition("a")).toMatchObject({ uncleanEpoch: 100, partitionEpoch: 102 });
  });
});

describe("min ISR (D-5)", () => {
  test("is the topic's, else the cluster's, else the majority of the declared replication factor, and never more than that", () => {
    const history = replicated();
    const minIsrs = [
      () => {},
      () => history.configure(null, "min.insync.replicas", "1"),
      () => history.configure("a", "min.insync.replicas", "3"),
      () => history.configure(null, "min.insync.replicas", "7"),
      () => history.configure("a", "min.insync.replicas", null),
      () => history.configure(null, "min.insync.replicas", null),
    ].map((step) => {
      step();
      expect(faultsOf(history.image)).toEqual([]);
      return history.partition("a").minIsr;
    });
    expect(minIsrs).toEqual([2, 1, 3, 3, 3, 2]);
    expect(history.partition("a")).toMatchObject({ leaderEpoch: 0, partitionEpoch: 3 });
    history.configure(null, "min.insync.replicas", "1");
    expect(history.create("b", { replicationFactor: 3 }).partitions).toMatchObject([{ minIsr: 1 }]);
    const configs = [{ key: "min.insync.replicas", value: "2" }];
    expect(history.create("c", { replicationFactor: 3, configs }).partitions).toMatchObject([{ minIsr: 2 }]);
  });

  test("more than the replication factor is refused of a topic, at creation and later", () => {
    const history = replicated();
    const message = "min.insync.replicas: takes 1 to 3, the replication factor of the topic, not 4";
    const changes = [{ key: "min.insync.replicas", value: "4" }];
    expect(decideTopicConfigs(history.image, { name: "a", changes })).toEqual({
      kind: "refused",
      error: "INVALID_CONFIG",
      message,
    });
    const wish = { replicationFactor: 3, configs: changes };
    expect(history.wishTopic("b", wish)).toEqual({ kind: "refused", error: "INVALID_CONFIG", message });
    expect(history.wishTopic("b", { replicationFactor: -1, configs: changes })).toMatchObject({
      error: "INVALID_CONFIG",
    });
  });

  test("lowered, it clears the ELR in the same change, whether or not the ISR is large enough by now; raised, it leaves it", () => {
    const history = replicated([1, 2, 3, 4, 5], 4);
    history.fence(5);
    history.fence(4);
    expect(history.standing("a")).toBe("1@0 [1 2 3] [4]");
    history.configure("a", "min.insync.replicas", "5");
    expect(history.standing("a")).toBe("1@0 [1 2 3] [4]");
    history.fence(3);
    expect(history.standing("a")).toBe("1@0 [1 2] [3 4]");
    history.configure("a", "min.insync.replicas", "3");
    expect(history.standing("a")).toBe("1@0 [1 2] []");
    history.fence(2);
    expect(history.standing("a")).toBe("1@0 [1] [2]");
  });

  test("lowered while nobody is in sync, it keeps those who are eligible: nobody commits meanwhile, and the election clears them where it must", () => {
    const history = replicated();
    history.fence(1, 2, 3);
    history.configure("a", "min.insync.replicas", "1");
    expect(history.standing("a")).toBe("-@3 [] [2 3]");
    history.unfence(3);
    expect(history.standing("a")).toBe("3@4 [3] []");
  });
});

describe("wishes of leaders (R-34)", () => {
  test("the order of the checks", () => {
    const history = replicated([1, 2, 3, 4]);
    history.create("b", { replicationFactor: 3 });
    const { topicId } = history.topic("a");
    const { brokerEpoch } = history.broker(1);
    const wish = { nodeId: node(1), brokerEpoch, topicId, partition: 0, leaderEpoch: 0, partitionEpoch: 0 };
    const refusal = (more: object) => {
      const members = [1, 2].map((nodeId) => ({ nodeId, brokerEpoch: history.broker(nodeId).brokerEpoch }));
      const decision = decideAlterPartition(history.image, { ...wish, isr: members, wantsMove: false, ...more });
      return decision.kind === "refused" ? decision.error : decision.records.length;
    };
    const member = (nodeId: number, epoch = history.image.broker(node(nodeId))?.brokerEpoch ?? -1) => ({
      nodeId,
      brokerEpoch: epoch,
    });
    const worst = {
      nodeId: node(2),
      brokerEpoch: 9_999,
      topicId: uuid(99),
      leaderEpoch: 5,
      partitionEpoch: -1,
      isr: [member(9)],
    };
    expect(refusal(worst)).toBe("STALE_BROKER_EPOCH");
    expect(refusal({ ...worst, ...member(2), nodeId: node(2) })).toBe("UNKNOWN_TOPIC_OR_PARTITION");
    expect(refusal({ ...worst, ...member(2), nodeId: node(2), topicId })).toBe("NOT_CONTROLLER");
    expect(refusal({ ...worst, ...member(2), nodeId: node(2), topicId, leaderEpoch: -1 })).toBe("FENCED_LEADER_EPOCH");
    expect(refusal({ ...worst, ...member(2), nodeId: node(2), topicId, leaderEpoch: 0 })).toBe("INVALID_REQUEST");
    expect(refusal({ partitionEpoch: 1 })).toBe("NOT_CONTROLLER");
    expect(refusal({ partitionEpoch: -1, isr: [member(9)] })).toBe("INVALID_UPDATE_VERSION");
    expect(refusal({ isr: [member(9)] })).toBe("INVALID_REQUEST");
    expect(refusal({ isr: [member(2)] })).toBe("INVALID_REQUEST");
    expect(refusal({ isr: [member(1), member(2), member(2)] })).toBe("INVALID_REQUEST");
    expect(refusal({ isr: [member(1), member(2, 1)] })).toBe("INELIGIBLE_REPLICA");
    history.fence(3);
    expect(refusal({ partitionEpoch: 1, isr: [member(1), member(3)] })).toBe("INELIGIBLE_REPLICA");
    expect(refusal({ partition: 1 })).toBe("UNKNOWN_TOPIC_OR_PARTITION");
    expect(refusal({ partitionEpoch: 1 })).toBe(1);
    history.delete("a");
    expect(refusal({ partitionEpoch: 1 })).toBe("UNKNOWN_TOPIC_OR_PARTITION");
  });

  test("what is so already is granted without a record, in any order of members", () => {
    const history = replicated();
    expect(history.wishIsr("a", 0, [3, 1, 2])).toEqual(NOTHING);
  });

  test("R-36: a smaller ISR keeps the leader epoch; those who leave a small one are eligible, alive as they are", () => {
    const history = replicated();
    const told = story(
      history,
      () => history.alter("a", 0, [1, 3]),
      () => history.alter("a", 0, [1]),
      () => history.alter("a", 0, [1, 2]),
    );
    expect(told).toEqual(["1@0 [1 3] []", "1@0 [1] [3]", "1@0 [1 2] []"]);
  });

  test("R-35: a member that has registered again since is not taken in by an older wish, although it is unfenced again", () => {
    const history = replicated();
    history.alter("a", 0, [1, 2]);
    const stale = history.broker(3).brokerEpoch;
    const { partitionEpoch } = history.partition("a");
    history.join(3);
    expect(history.partition("a").partitionEpoch).toBe(partitionEpoch);
    expect(history.wishIsr("a", 0, [1, 2, 3], { memberEpochs: { 3: stale } })).toMatchObject({
      error: "INELIGIBLE_REPLICA",
    });
    expect(history.wishIsr("a", 0, [1, 2, 3])).toMatchObject({ kind: "records" });
  });

  const moves = (history: History) =>
    story(
      history,
      () => history.alter("a", 0, [1, 2, 3], { wantsMove: true }),
      () => history.alter("a", 0, [2, 3], { wantsMove: true }),
    );

  test("D-8: a leader whose disk is behind hands over to another that is in sync, and nobody waits for it there; without one it goes on", () => {
    const history = replicated();
    // The second time min ISR needs it.
    expect(moves(history)).toEqual(["2@1 [2 3] []", "3@2 [2 3] []"]);
    history.alter("a", 0, [3]);
    expect(history.wishIsr("a", 0, [3], { wantsMove: true })).toEqual(NOTHING);
  });

  test("D-8m: the planted bug leaves it in the ISR", () => {
    activateMutants(["D-8m"]);
    expect(moves(replicated())).toEqual(["2@1 [1 2 3] []", "3@2 [2 3] []"]);
    activateMutants([]);
  });
});

describe("damage (D-17)", () => {
  test("a damaged replica is in neither ISR nor ELR, and others lead", () => {
    const history = replicated();
    const told = story(
      history,
      () => history.take(history.wishDamage(1, "a", 0)),
      () => history.fence(3),
      () => history.take(history.wishDamage(3, "a", 0)),
      () => history.take(history.wishDamage(2, "a", 0)),
    );
    expect(told).toEqual(["2@1 [2 3] []", "2@1 [2] [3]", "2@2 [2] []", "-@3 [] []"]);
    history.unfence(3);
    expect(history.standing("a")).toBe("-@3 [] []");
  });

  test("a new leader epoch begins, also where it was in neither ISR nor ELR: a wish to take it in for what it had comes too late", () => {
    const history = replicated();
    history.alter("a", 0, [1, 2]);
    const { partitionEpoch, leaderEpoch } = history.partition("a");
    history.take(history.wishDamage(3, "a", 0));
    expect(history.standing("a")).toBe("1@1 [1 2] []");
    const late = { partitionEpoch, leaderEpoch };
    expect(history.wishIsr("a", 0, [1, 2, 3], late)).toMatchObject({ error: "FENCED_LEADER_EPOCH" });
    expect(history.wishIsr("a", 0, [1, 2, 3], { damaged: [3] })).toMatchObject({ error: "INELIGIBLE_REPLICA" });
    expect(history.wishIsr("a", 0, [1, 2, 3])).toMatchObject({ kind: "records" });
  });

  test("of another broker epoch says nothing; of what is not there, or not the broker's, there is nothing to do", () => {
    const history = replicated([1, 2]);
    history.join(3);
    const { topicId } = history.topic("a");
    const wish = { nodeId: node(2), brokerEpoch: history.broker(2).brokerEpoch };
    const partitions = [{ topicId, partition: 0 }];
    expect(decideDamage(history.image, { ...wish, brokerEpoch: 1, partitions })).toMatchObject({
      error: "STALE_BROKER_EPOCH",
    });
    const none = [
      { topicId, partition: 7 },
      { topicId: uuid(99), partition: 0 },
    ];
    expect(decideDamage(history.image, { ...wish, partitions: none })).toEqual(NOTHING);
    const other = { nodeId: node(3), brokerEpoch: history.broker(3).brokerEpoch, partitions };
    expect(decideDamage(history.image, other)).toEqual(NOTHING);
  });

  test("of 10,000 partitions goes into more than one command", () => {
    const history = History.started([1, 2, 3]);
    const { topicId } = history.create("a", { partitions: 10_000, replicationFactor: 3 });
    const { brokerEpoch } = history.broker(1);
    const partitions = Array.from({ length: 10_000 }, (_, partition) => ({ topicId, partition }));
    let commands = 0;
    while (history.topic("a").partitions.some(({ isr }) => isr.includes(node(1)))) {
      const left = partitions.filter(({ partition }) => history.partition("a", partition).isr.includes(node(1)));
      const records = history.take(decideDamage(history.image, { nodeId: node(1), brokerEpoch, partitions: left }));
      expect(JSON.stringify(records).length).toBeLessThan(1_000_000);
      commands++;
    }
    expect(commands).toBeGreaterThan(1);
  });
});

describe("balance", () => {
  test("gives leaderships back to first replicas that are in sync and steady, so many at once", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 6, replicationFactor: 3 });
    history.fence(1);
    history.unfence(1);
    expect(decideBalance(history.image, { max: 9, isSteady: () => true })).toEqual(NOTHING);
    for (let at = 0; at < 6; at++) history.alter("a", at, [1, 2, 3]);
    expect(decideBalance(history.image, { max: 9, isSteady: () => false })).toEqual(NOTHING);
    history.take(decideBalance(history.image, { max: 1, isSteady: () => true }));
    expect(history.image.ledCount(node(1))).toBe(1);
    history.take(decideBalance(history.image, { max: 9, isSteady: () => true }));
    expect(history.leaders("a")).toEqual([1, 2, 3, 1, 2, 3]);
    expect(decideBalance(history.image, { max: 9, isSteady: () => true })).toEqual(NOTHING);
  });

  test("costs nothing where nothing is astray, however many partitions there are", () => {
    const history = History.started([1, 2, 3]);
    for (let at = 0; at < 20; at++) history.create(`t${at}`, { partitions: 500, replicationFactor: 3 });
    let asked = 0;
    const isSteady = () => ++asked > 0;
    expect(decideBalance(history.image, { max: 1_000, isSteady })).toEqual(NOTHING);
    expect(asked).toBe(0);
    expect([...history.image.astray()]).toEqual([]);
  });
});

describe("relief", () => {
  const relief = (history: History, full: readonly number[], max = 9) =>
    decideRelief(history.image, { max, full: full.map(node), isFit: (nodeId) => !full.includes(nodeId) });

  test("what a broker with a full disk leads goes to others in sync that have room, so many at once", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { partitions: 6, replicationFactor: 3 });
    history.take(relief(history, [1], 1));
    expect(history.leaders("a").filter((leader) => leader === 1)).toHaveLength(1);
    history.take(relief(history, [1]));
    expect(history.leaders("a")).not.toContain(1);
    expect(relief(history, [1])).toEqual(NOTHING);
  });

  test("never to one that is not in sync, fenced, or full as well", () => {
    const history = History.started([1, 2, 3]);
    history.create("a", { replicationFactor: 3 });
    history.alter("a", 0, [1, 3]);
    expect(relief(history, [1, 3])).toEqual(NOTHING);
    history.take(relief(history, [1]));
    expect(history.leaders("a")).toEqual([3]);
    history.fence(1);
    expect(relief(history, [3])).toEqual(NOTHING);
  });
});
