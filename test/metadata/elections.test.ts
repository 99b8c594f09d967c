// Elections that an operator asks for: whom they choose, when they are refused, and what is told of them.
import { describe, expect, test } from "vitest";
import {
  decideElections,
  type Elections,
  type ElectionsDecision,
  type ReplicaEnd,
} from "../../src/metadata/controller.ts";
import { History, node } from "./support.ts";

const NOTHING = { kind: "records", records: [] };

/** Topic "a" with one partition on all the brokers, each in sync, the first leads. */
function replicated(nodeIds: readonly number[] = [1, 2, 3]): History {
  const history = History.started(nodeIds);
  history.create("a", { replicationFactor: nodeIds.length });
  return history;
}

const FORCED = { isForced: true } as const;

const known = (epoch: number, endOffset: number, startOffset = 0): ReplicaEnd => ({
  kind: "known",
  epoch,
  startOffset,
  endOffset,
});

/** Of a-0, that nobody has whole any more, with four replicas that are up and say this. */
function lostElection(ends: Readonly<Record<number, ReplicaEnd>>, more: Partial<Elections> = {}): ElectionsDecision {
  const nodeIds = [1, 2, 3, 4];
  const history = replicated(nodeIds);
  history.fence(...nodeIds);
  for (const nodeId of nodeIds) history.take(history.wishDamage(nodeId, "a", 0));
  for (const nodeId of nodeIds) history.unfence(nodeId);
  expect(history.partition("a")).toMatchObject({ leader: null, isr: [], elr: [] });
  return decideElections(history.image, {
    kind: "unclean",
    partitions: [{ topicId: history.topic("a").topicId, partition: 0 }],
    nodeId: null,
    endOf: (nodeId) => ends[nodeId],
    ...more,
  });
}

describe("elections by an operator (R-60, R-61)", () => {
  test("the first replica leads again when it is in sync", () => {
    const history = replicated();
    expect(history.wishElection("preferred", "a", 0)).toMatchObject({ error: "ELECTION_NOT_NEEDED" });
    history.fence(1);
    expect(history.wishElection("preferred", "a", 0)).toMatchObject({
      error: "PREFERRED_LEADER_NOT_AVAILABLE",
      message: "node 1, its first replica, is fenced",
    });
    history.unfence(1);
    expect(history.wishElection("preferred", "a", 0)).toMatchObject({
      error: "PREFERRED_LEADER_NOT_AVAILABLE",
      message: "node 1, its first replica, is not in sync",
    });
    history.alter("a", 0, [1, 2, 3]);
    history.take(history.wishElection("preferred", "a", 0));
    expect(history.standing("a")).toBe("1@2 [1 2 3] []");
    expect(history.wishElection("preferred", "a", 1)).toMatchObject({ error: "UNKNOWN_TOPIC_OR_PARTITION" });
  });

  test("the one that is named leads when it is in sync, and nobody else", () => {
    const history = replicated([1, 2, 3, 4]);
    history.create("b", { replicationFactor: 2 });
    history.take(history.wishElection("preferred", "a", 0, 3));
    expect(history.standing("a")).toBe("3@1 [1 2 3 4] []");
    expect(history.wishElection("preferred", "a", 0, 3)).toMatchObject({ error: "ELECTION_NOT_NEEDED" });
    const refusal = (nodeId: number, topic = "a", more: Partial<Elections> = {}) =>
      history.wishElection("preferred", topic, 0, nodeId, more);
    expect(refusal(9)).toMatchObject({ error: "BROKER_ID_NOT_REGISTERED" });
    const outsider = [1, 2, 3, 4].find((id) => !history.partition("b").replicas.includes(node(id))) ?? 0;
    expect(refusal(outsider, "b")).toMatchObject({ error: "ELIGIBLE_LEADERS_NOT_AVAILABLE" });
    expect(refusal(2, "a", { isDamaged: (nodeId) => nodeId === node(2) })).toMatchObject({
      error: "PREFERRED_LEADER_NOT_AVAILABLE",
      message: "node 2 is damaged",
    });
    history.fence(2);
    expect(refusal(2)).toMatchObject({ error: "PREFERRED_LEADER_NOT_AVAILABLE", message: "node 2 is fenced" });
    history.unfence(2);
    expect(refusal(2)).toMatchObject({ error: "PREFERRED_LEADER_NOT_AVAILABLE", message: "node 2 is not in sync" });
    expect(history.standing("a")).toBe("3@1 [1 3 4] []");
  });

  test("an unclean one only where nobody leads, of whoever is active, and it is on record", () => {
    const history = replicated();
    expect(history.wishElection("unclean", "a", 0)).toMatchObject({ error: "ELECTION_NOT_NEEDED" });
    history.alter("a", 0, [1, 2]);
    history.fence(1, 2);
    expect(history.standing("a")).toBe("-@2 [] [1 2]");
    expect(history.wishElection("unclean", "a", 0, 1, FORCED)).toMatchObject({
      error: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
      message: "the replica of a-0 on node 1 is fenced",
    });
    history.take(history.wishElection("unclean", "a", 0, null, FORCED));
    expect(history.standing("a")).toBe("3@3 [3] []");
    expect(history.partition("a").uncleanEpoch).toBe(3);
    for (const nodeId of [1, 2]) history.unfence(nodeId);
    history.alter("a", 0, [1, 2, 3]);
    history.fence(3);
    expect(history.standing("a")).toBe("1@4 [1 2] []");
    expect(history.partition("a").uncleanEpoch, "it is never forgotten").toBe(3);
  });

  test("of a node that there is not, or that has no replica, is an error also where somebody leads", () => {
    const history = replicated();
    history.join(4);
    for (const fenced of [[], [1, 2, 3]]) {
      history.fence(...fenced);
      expect(history.wishElection("unclean", "a", 0, 9)).toMatchObject({
        error: "BROKER_ID_NOT_REGISTERED",
        message: "there is no node 9: a-0 is on nodes 1, 2, 3",
      });
      expect(history.wishElection("unclean", "a", 0, 4)).toMatchObject({
        error: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        message: "node 4 has no replica of a-0: it is on nodes 1, 2, 3",
      });
    }
  });

  test("a partition that there is not is told so", () => {
    expect(replicated().wishElection("unclean", "a", 7)).toMatchObject({
      error: "UNKNOWN_TOPIC_OR_PARTITION",
      message: "a has no partition 7: it has 1",
    });
  });

  test("where one that has everything is only down it is refused, by name too, unless it is forced", () => {
    const history = replicated();
    history.alter("a", 0, [1, 2]);
    history.fence(2, 1);
    expect(history.standing("a")).toBe("-@1 [] [1 2]");
    for (const nodeId of [null, 3])
      expect(history.wishElection("unclean", "a", 0, nodeId)).toMatchObject({
        error: "ELIGIBLE_LEADER_DOWN",
        message: "a-0: nodes 1, 2 have everything and are only down: start one of them",
      });
    history.take(history.wishDamage(1, "a", 0));
    expect(history.wishElection("unclean", "a", 0)).toMatchObject({
      error: "ELIGIBLE_LEADER_DOWN",
      message: "a-0: node 2 has everything and is only down: start it",
    });
    history.take(history.wishElection("unclean", "a", 0, null, FORCED));
    expect(history.standing("a")).toBe("3@3 [3] []");
  });

  test("of whoever has most, by the epoch of the last batch and then by the end; it is told what each has", () => {
    const ends: Readonly<Record<number, ReplicaEnd>> = {
      1: known(2, 9),
      2: known(3, 5),
      3: known(3, 7),
      4: { kind: "unknown", why: "no answer in time" },
    };
    const { decision, verdicts } = lostElection(ends);
    expect(decision).toMatchObject({ records: [{ changes: [{ leader: 3, isr: [3], elr: [], isUnclean: true }] }] });
    expect(verdicts).toEqual([
      {
        error: "NONE",
        endOffset: 7,
        message:
          "node 3 has offsets 0 to 6 (epoch 3), node 1 has offsets 0 to 8 (epoch 2), node 2 has offsets 0 to 4 (epoch 3), node 4 does not say what it has (no answer in time)",
      },
    ]);
    expect(lostElection(ends, { nodeId: node(2) }).verdicts).toMatchObject([{ error: "NONE", endOffset: 5 }]);
    expect(lostElection({ ...ends, 3: known(3, 5) }).decision, "of equals the first").toMatchObject({
      records: [{ changes: [{ leader: 2 }] }],
    });
  });

  test("nobody is taken for the fullest while one does not answer and the others have nothing", () => {
    const ends = {
      1: known(-1, 0),
      2: { kind: "unknown", why: "no answer" },
      3: known(-1, 0),
      4: known(-1, 4, 4),
    } as const;
    expect(lostElection(ends).verdicts).toMatchObject([
      {
        error: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        message:
          "a-0: node 1 has nothing, node 2 does not say what it has (no answer), node 3 has nothing, node 4 has nothing: try again, or name a node",
      },
    ]);
    expect(lostElection(ends, { isForced: true }).verdicts).toMatchObject([{ error: "NONE" }]);
    expect(lostElection(ends, { nodeId: node(1) }).verdicts).toMatchObject([{ error: "NONE", endOffset: 0 }]);
    expect(lostElection({ ...ends, 2: known(-1, 0) }).verdicts).toMatchObject([{ error: "NONE", endOffset: 4 }]);
  });

  test("never of a replica that is known to be damaged, not even by name; where all are, it is told what is left to do", () => {
    const history = replicated([1, 2]);
    history.fence(1, 2);
    history.take(history.wishDamage(1, "a", 0));
    history.take(history.wishDamage(2, "a", 0));
    history.unfence(1);
    const { topicId } = history.topic("a");
    const partitions = [{ topicId, partition: 0 }];
    for (const nodeId of [null, node(1)]) {
      const wish = { kind: "unclean", partitions, nodeId, isDamaged: (each: number) => each === 1 } as const;
      const { decision, verdicts } = decideElections(history.image, wish);
      expect(decision).toEqual(NOTHING);
      expect(verdicts).toMatchObject([
        { error: "ELIGIBLE_LEADERS_NOT_AVAILABLE", message: expect.stringContaining("damaged") },
      ]);
      expect(verdicts[0]?.message).not.toContain("log dump");
    }
    history.unfence(2);
    const { verdicts } = decideElections(history.image, {
      kind: "unclean",
      partitions,
      nodeId: null,
      isDamaged: () => true,
    });
    expect(verdicts[0]?.message).toBe(
      "a-0: node 1 is damaged, node 2 is damaged. All replicas of a-0 are damaged. Bring back a disk with a good copy, or delete the topic; ottla log dump on a stopped node shows what can still be read of it",
    );
  });

  test("of a partition whose only replica is damaged, too: what of it cannot be served", () => {
    const history = replicated([1]);
    history.fence(1);
    history.take(history.wishDamage(1, "a", 0));
    history.unfence(1);
    const partitions = [{ topicId: history.topic("a").topicId, partition: 0 }];
    const wish = { kind: "unclean", partitions, nodeId: null, isDamaged: () => true } as const;
    expect(decideElections(history.image, wish).verdicts[0]?.message).toMatch(
      /^a-0: node 1 is damaged\. The only replica of a-0 is damaged: the data from the damaged segment on cannot be served\. Bring back/,
    );
  });

  test("each partition by itself, in one command, each once", () => {
    const history = History.started([1, 2, 3]);
    const { topicId } = history.create("a", { partitions: 3, replicationFactor: 3 });
    history.fence(1);
    history.unfence(1);
    for (const partition of [0, 1, 2]) history.alter("a", partition, [1, 2, 3]);
    const partitions = [2, 0, 0, 5].map((partition) => ({ topicId, partition }));
    const { decision, verdicts } = decideElections(history.image, { kind: "preferred", partitions, nodeId: null });
    expect(verdicts.map(({ error }) => error)).toEqual([
      "ELECTION_NOT_NEEDED",
      "NONE",
      "INVALID_REQUEST",
      "UNKNOWN_TOPIC_OR_PARTITION",
    ]);
    history.take(decision);
    expect(history.leaders("a")).toEqual([1, 2, 3]);
  });
});
