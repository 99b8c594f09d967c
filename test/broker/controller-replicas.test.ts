// The active controller, against a log that commits at once: damage, ISRs, and who leads again when.
import { describe, expect, test } from "vitest";
import type { IncarnationId } from "../../src/model/ids.ts";
import { active, type Bench, idOf, SESSION_MS, TOPIC } from "./controller-bench.ts";

describe("damage (D-17)", () => {
  const damaged = [{ topicId: TOPIC, partitions: [1] }];

  test("is committed before the heartbeat is answered, once for as long as it is told", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([
      [2, 1, 3],
      [2, 1, 3],
    ]);
    const answer = bench.controller.heartbeat(bench.heartbeatOf(2, { damaged })).then(() => bench.standing(1));
    expect(await answer).toBe("1@1 [1 3] []");
    await bench.beat(2, { damaged });
    expect(bench.decided()).toEqual(["change 1:1"]);
    expect(bench.standing(0)).toBe("2@0 [2 1 3] []");
    await bench.beat(2);
    await bench.beat(2, { damaged });
    expect(bench.decided(), "told anew, it is another damage").toEqual(["change 1:1"]);
  });

  test("of a broker that has just come back is committed before it may be elected", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2, 2]);
    await bench.register(2, 22);
    bench.commands.length = 0;
    await bench.beat(2, { incarnationId: idOf(22) as IncarnationId, damaged });
    expect(bench.decided()).toEqual(["change 1:null", "unfence 2"]);
    expect([bench.standing(0), bench.standing(1)]).toEqual(["2@2 [2] []", "-@2 [] []"]);
  });

  test("that could not be committed is no answer, and yet a sign of life", async () => {
    const bench = await active(1, 2);
    bench.createTopic([[2, 1]]);
    await bench.world.runFor(SESSION_MS - 500);
    await bench.beat(1);
    bench.refuseWith = { kind: "refused", error: "REQUEST_TIMED_OUT", message: "nobody knows" };
    const list = [{ topicId: TOPIC, partitions: [0] }];
    await expect(bench.beat(2, { damaged: list })).rejects.toMatchObject({ code: "REQUEST_TIMED_OUT" });
    bench.refuseWith = undefined;
    await bench.world.runFor(1_000);
    expect(bench.decided(), "nobody was fenced").toEqual([]);
    await bench.beat(2, { damaged: list });
    expect(bench.decided()).toEqual(["change 0:1"]);
  });
});

describe("wishes of leaders (R-34)", () => {
  test("those of one moment go into one command, each with its own answer", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([
      [1, 2, 3],
      [2, 1, 3],
      [3, 1, 2],
    ]);
    const first = bench.alter(0, [1, 2]);
    const answers = await Promise.all([
      first,
      bench.alter(1, [2, 3]),
      bench.alter(2, [3, 1], { partitionEpoch: 7 }),
      bench.alter(1, [2, 1]),
    ]);
    expect(answers.map(({ entries }) => entries.map(({ error }) => error))).toEqual([
      ["NONE"],
      ["NONE"],
      ["NOT_CONTROLLER"],
      ["INVALID_UPDATE_VERSION"],
    ]);
    expect(bench.decided()).toEqual(["change 0:1", "change 1:2"]);
    expect(bench.standing(0)).toBe("1@0 [1 2] []");
  });

  test("that nobody could decide on fail as a whole", async () => {
    const bench = await active(1, 2);
    bench.createTopic([[1, 2]]);
    bench.refuseWith = { kind: "refused", error: "REQUEST_TIMED_OUT", message: "nobody knows" };
    await expect(bench.alter(0, [1])).rejects.toMatchObject({ code: "REQUEST_TIMED_OUT" });
    bench.refuseWith = undefined;
    bench.controller.onControllerChanged(false);
    await expect(bench.alter(0, [1])).rejects.toMatchObject({ code: "NOT_CONTROLLER" });
  });

  test("R-35: a replica that was told to be damaged is not taken in", async () => {
    const bench = await active(1, 2);
    bench.createTopic([[1, 2]]);
    await bench.alter(0, [1]);
    await bench.beat(2, { damaged: [{ topicId: TOPIC, partitions: [0] }] });
    expect(await bench.alter(0, [1, 2])).toEqual({ entries: [{ error: "INELIGIBLE_REPLICA" }] });
    await bench.beat(2);
    expect(await bench.alter(0, [1, 2])).toEqual({ entries: [{ error: "NONE" }] });
  });
});

describe("balance of leaders", () => {
  /** Heartbeats of all for so long. */
  async function beatsFor(bench: Bench, ms: number, ...nodeIds: number[]): Promise<void> {
    for (let atMs = 0; atMs < ms; atMs += 250) {
      for (const nodeId of nodeIds) await bench.beat(nodeId);
      await bench.world.runFor(250 - nodeIds.length);
    }
  }

  test("a restarted broker that is in sync again leads its share within seconds, not at once", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([
      [1, 2, 3],
      [2, 3, 1],
    ]);
    await beatsFor(bench, 3_000, 1, 2, 3);
    bench.refused(2);
    await bench.world.runFor(1);
    await bench.beat(2);
    for (const partition of [0, 1]) await bench.alter(partition, [1, 2, 3]);
    bench.commands.length = 0;
    expect(bench.standing(1)).toBe("3@1 [2 3 1] []");
    await beatsFor(bench, 1_500, 1, 2, 3);
    expect(bench.decided()).toEqual([]);
    await beatsFor(bench, 3_000, 1, 2, 3);
    expect(bench.decided()).toEqual(["change 1:2"]);
    expect(bench.standing(1)).toBe("2@2 [2 3 1] []");
  });

  test("nothing is given to a broker that was not heard of lately, nor by who gave it away because its disk is behind (D-8)", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([[2, 3, 1]]);
    await beatsFor(bench, 3_000, 1, 2, 3);
    await bench.alter(0, [1, 2, 3], { wantsMove: true });
    expect(bench.standing()).toBe("3@1 [3 1] []");
    await bench.alter(0, [1, 2, 3]);
    bench.commands.length = 0;
    await beatsFor(bench, 50_000, 1, 2, 3);
    expect(bench.decided()).toEqual([]);
    await beatsFor(bench, 13_000, 1, 2, 3);
    expect(bench.decided()).toEqual(["change 0:2"]);
    const quiet = await active(1, 2, 3);
    quiet.createTopic([[2, 3, 1]]);
    await beatsFor(quiet, 3_000, 1, 2, 3);
    quiet.refused(2);
    await quiet.world.runFor(1);
    await quiet.beat(2);
    await quiet.alter(0, [1, 2, 3]);
    quiet.commands.length = 0;
    await beatsFor(quiet, 1_500, 1, 2, 3);
    await beatsFor(quiet, 2_500, 1, 3);
    expect(quiet.decided()).toEqual([]);
  });
});

describe("elections by an operator", () => {
  const wish = { kind: "preferred", topic: null, partitions: null, nodeId: -1, isForced: false } as const;

  test("of everything name only what was not as wished", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([
      [1, 2, 3],
      [2, 3, 1],
      [3, 1, 2],
    ]);
    bench.refused(2);
    await bench.world.runFor(1);
    await bench.beat(2);
    expect(await bench.controller.electLeaders(wish)).toMatchObject({
      entries: [{ partition: 1, error: "PREFERRED_LEADER_NOT_AVAILABLE", leader: 3 }],
      omitted: 0,
    });
    for (const partition of [0, 1]) await bench.alter(partition, [1, 2, 3]);
    expect(await bench.controller.electLeaders(wish)).toEqual({
      entries: [{ topic: `t${TOPIC}`, partition: 1, error: "NONE", message: null, leader: 2, endOffset: -1 }],
      omitted: 0,
      metadataEnd: bench.image.endOffset,
    });
    expect(await bench.controller.electLeaders(wish)).toMatchObject({ entries: [] });
    // Of a whole topic: wherever somebody else leads.
    expect(await bench.controller.electLeaders({ ...wish, topic: `t${TOPIC}`, nodeId: 3 })).toMatchObject({
      entries: [
        { partition: 0, error: "NONE", leader: 3 },
        { partition: 1, error: "NONE", leader: 3 },
      ],
    });
    expect((await bench.controller.electLeaders(wish)).entries).toHaveLength(2);
    expect(await bench.controller.electLeaders({ ...wish, topic: `t${TOPIC}`, partitions: [0, 7] })).toMatchObject({
      entries: [
        { partition: 0, error: "ELECTION_NOT_NEEDED", leader: 1 },
        { partition: 7, error: "UNKNOWN_TOPIC_OR_PARTITION", leader: -1 },
      ],
    });
    await expect(bench.controller.electLeaders({ ...wish, topic: "none" })).rejects.toMatchObject({
      code: "UNKNOWN_TOPIC_OR_PARTITION",
    });
  });

  test("an unclean one is told as an event, with who leads in which epoch", async () => {
    const bench = await active(1, 2);
    bench.createTopic([[1, 2]]);
    await bench.alter(0, [1]);
    await bench.beat(2, { damaged: [{ topicId: TOPIC, partitions: [0] }] });
    await bench.beat(2);
    bench.refused(1);
    await bench.world.runFor(1);
    const unclean = { ...wish, kind: "unclean", nodeId: 2 } as const;
    bench.ends.set(2, [0, 5]);
    expect(await bench.controller.electLeaders(unclean)).toMatchObject({
      entries: [{ partition: 0, error: "ELIGIBLE_LEADER_DOWN", leader: -1 }],
    });
    expect(await bench.controller.electLeaders({ ...unclean, isForced: true })).toMatchObject({
      entries: [{ partition: 0, error: "NONE", leader: 2, endOffset: 5 }],
    });
    expect(bench.events.filter(({ name }) => name === "unclean_election")).toEqual([
      {
        name: "unclean_election",
        topic: `t${TOPIC}`,
        partition: 0,
        leader: 2,
        leaderEpoch: 3,
        message: "node 2 has offsets 0 to 4 (epoch 0), node 1 is fenced",
      },
    ]);
    expect(bench.image.topic(TOPIC)?.partitions[0]).toMatchObject({ uncleanEpoch: 3, isr: [2], elr: [] });
  });

  test("an unclean one asks who could lead what they have, over the control connections, and takes the one with most", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([
      [1, 2, 3],
      [2, 3, 1],
    ]);
    await losesAll(bench, 1, 2, 3);
    bench.own = { ...NOTHING_OWN, lastEpoch: 1, endOffset: 9 };
    bench.ends.set(3, [2, 4]);
    const { entries } = await bench.controller.electLeaders({ ...wish, kind: "unclean", topic: `t${TOPIC}` });
    const leaders = entries.map(({ error, leader, endOffset }) => ({ error, leader, endOffset }));
    expect(leaders).toEqual(new Array(2).fill({ error: "NONE", leader: 3, endOffset: 4 }));
    expect(entries[0]?.message).toBe(
      "node 3 has offsets 0 to 3 (epoch 2), node 1 has offsets 0 to 8 (epoch 1), node 2 does not say what it has (the request was not done by its deadline)",
    );
    // Once for both partitions, and not over the network where it is itself.
    expect(new Set(bench.described)).toEqual(new Set([2, 3]));
    expect(bench.described).toHaveLength(2);
  });

  test("of a partition that somebody leads nobody is asked; a preferred election asks nobody", async () => {
    const bench = await active(1, 2);
    bench.createTopic([[1, 2]]);
    await bench.controller.electLeaders({ ...wish, kind: "unclean", topic: `t${TOPIC}`, partitions: [0] });
    await bench.controller.electLeaders(wish);
    expect(bench.described).toEqual([]);
  });
});

const NOTHING_OWN = { lastEpoch: -1, partitionEpoch: 0, startOffset: 0, highWatermark: 0, endOffset: 0, durableEnd: 0 };

/** Whatever they had is damaged, and begun anew. */
async function losesAll(bench: Bench, ...nodeIds: readonly number[]): Promise<void> {
  const damaged = [{ topicId: TOPIC, partitions: [0, 1] }];
  for (const nodeId of nodeIds) await bench.beat(nodeId, { damaged });
  for (const nodeId of nodeIds) await bench.beat(nodeId);
  expect(bench.standing()).toMatch(/^-@\d+ \[\] \[\]$/);
}
