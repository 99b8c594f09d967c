// The active controller, against a log that commits at once: who is fenced, let in and removed when.
import { describe, expect, test } from "vitest";
import { toNodeId, type DirectoryId, type IncarnationId, type NodeId } from "../../src/model/ids.ts";
import { active, Bench, CLUSTER, idOf, SESSION_MS, TOPIC } from "./controller-bench.ts";

describe("sessions", () => {
  test("brokers that are not heard of are fenced when their sessions end, all in one command", async () => {
    const bench = await active(1, 2, 3);
    for (let beatMs = 0; beatMs < SESSION_MS; beatMs += 500) {
      await bench.beat(1);
      await bench.world.runFor(499);
    }
    await bench.beat(1);
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual(["fence 2 session, fence 3 session"]);
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual([]);
  });

  test("a fencing that could not be decided is tried again; a broker that was heard of meanwhile is left alone", async () => {
    const bench = await active(1, 2, 3);
    bench.refuseWith = { kind: "refused", error: "STORAGE_FULL", message: "full" };
    await bench.world.runFor(SESSION_MS + 500);
    expect(bench.decided()).toEqual([]);
    await bench.beat(2);
    bench.refuseWith = undefined;
    await bench.world.runFor(300);
    expect(bench.decided()).toEqual(["fence 1 session, fence 3 session"]);
  });

  test("D-22: a new controller asks all brokers at once and gives each a fresh session", async () => {
    const bench = new Bench();
    bench.controller.onControllerChanged(true);
    await bench.join(1, 2, 3);
    bench.controller.onControllerChanged(false);
    bench.isController = false;
    await expect(bench.beat(2)).rejects.toMatchObject({ code: "NOT_CONTROLLER" });
    await bench.world.runFor(2 * SESSION_MS);
    expect(bench.decided(), "it decides nothing while it is none").toEqual([]);
    bench.isController = true;
    bench.controller.onControllerChanged(true);
    expect(new Set(bench.probed)).toEqual(new Set([2, 3]));
    expect(new Set(bench.wanted)).toEqual(new Set([1, 2, 3]));
    await bench.world.runFor(SESSION_MS - 300);
    expect(bench.decided()).toEqual([]);
    await bench.world.runFor(600);
    expect(bench.decided()).toEqual(["fence 1 session, fence 2 session, fence 3 session"]);
  });
});

describe("a refused connection (D-22)", () => {
  test("fences at once, at the registered address only", async () => {
    const bench = await active(1, 2);
    bench.refused(2, "elsewhere:1");
    bench.refused(9);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual([]);
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["fence 2 refused"]);
  });

  test("proves nothing any more of an incarnation that lived on after one; of its next one it does", async () => {
    const bench = await active(1, 2);
    bench.refused(2);
    await bench.world.runFor(1);
    await bench.beat(2);
    expect(bench.decided()).toEqual(["fence 2 refused", "unfence 2"]);
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual([]);
    await bench.register(2, 22);
    await bench.beat(2, { incarnationId: idOf(22) as IncarnationId });
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["register-broker", "unfence 2", "fence 2 refused"]);
  });
});

describe("heartbeats", () => {
  test("of another epoch or incarnation are answered STALE_BROKER_EPOCH and are no sign of life", async () => {
    const bench = await active(1, 2);
    await bench.world.runFor(SESSION_MS - 300);
    await bench.beat(1);
    await expect(bench.beat(2, { brokerEpoch: 99 })).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
    await expect(bench.beat(2, { incarnationId: idOf(9) as IncarnationId })).rejects.toMatchObject({
      code: "STALE_BROKER_EPOCH",
    });
    await expect(bench.beat(8)).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
    await bench.world.runFor(600);
    expect(bench.decided()).toEqual(["fence 2 session"]);
  });

  test("D-6, R-64: a broker is unfenced when its epoch is stored and its registration applied there, and leads what waits for it", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2, 1, 2]);
    const epoch = await bench.register(2, 22);
    const incarnationId = idOf(22) as IncarnationId;
    bench.commands.length = 0;
    expect(await bench.beat(2, { incarnationId, epochStored: false })).toEqual({ isFenced: true, mayShutDown: false });
    expect(await bench.beat(2, { incarnationId, appliedEnd: epoch })).toEqual({ isFenced: true, mayShutDown: false });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { incarnationId, appliedEnd: epoch + 1 });
    expect(bench.decided()).toEqual(["unfence 2"]);
    expect([0, 1, 2].map((partition) => bench.standing(partition))).toEqual(["2@2 [2] []", "1@0 [1] []", "2@2 [2] []"]);
    expect(await bench.beat(2, { incarnationId })).toEqual({ isFenced: false, mayShutDown: false });
    expect(bench.decided()).toEqual([]);
  });

  test("R-62: who wants to go is fenced before it is told that it may, and is not unfenced by asking on", async () => {
    const bench = await active(1, 2);
    expect(await bench.beat(2, { wantsShutdown: true })).toEqual({ isFenced: true, mayShutDown: true });
    expect(await bench.beat(2, { wantsShutdown: true })).toEqual({ isFenced: true, mayShutDown: true });
    expect(bench.decided()).toEqual(["fence 2 shutdown"]);
    bench.refuseWith = { kind: "refused", error: "STORAGE_FULL", message: "full" };
    expect(await bench.beat(1, { wantsShutdown: true })).toEqual({ isFenced: false, mayShutDown: false });
  });

  test("R-62: it may go once all others have applied that it leads nothing, and a second later whatever they say", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([[2, 1, 3]]);
    const before = bench.image.endOffset;
    await bench.beat(3, { appliedEnd: before });
    expect(await bench.beat(2, { wantsShutdown: true })).toEqual({ isFenced: true, mayShutDown: false });
    expect(bench.standing()).toBe("1@1 [1 3] []");
    await bench.beat(3, { appliedEnd: before });
    expect(await bench.beat(2, { wantsShutdown: true })).toMatchObject({ mayShutDown: false });
    await bench.beat(3, { appliedEnd: before + 1 });
    expect(await bench.beat(2, { wantsShutdown: true })).toMatchObject({ mayShutDown: true });
    expect(await bench.beat(3, { wantsShutdown: true, appliedEnd: before + 1 })).toMatchObject({ mayShutDown: true });
    const slow = await active(1, 2, 3);
    await slow.beat(3, { appliedEnd: 0 });
    expect(await slow.beat(2, { wantsShutdown: true })).toMatchObject({ mayShutDown: false });
    await slow.world.runFor(1_000);
    expect(await slow.beat(2, { wantsShutdown: true })).toMatchObject({ mayShutDown: true });
  });
});

describe("deletions", () => {
  const mark = (bench: Bench) => bench.apply({ type: "delete-topic", version: 1, topicId: TOPIC });

  test("wait for every live broker with a replica, and for no other", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([1, 2]);
    mark(bench);
    bench.commands.length = 0;
    await bench.beat(1, { droppedTopics: [TOPIC] });
    await bench.beat(3, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual([]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["remove, owed "]);
  });

  test("end when those that are waited for are fenced; these settle it when they are back, and nobody asks twice", async () => {
    const bench = await active(1, 2, 3);
    bench.createTopic([1, 2]);
    mark(bench);
    await bench.beat(1, { droppedTopics: [TOPIC] });
    bench.commands.length = 0;
    bench.refused(2);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["fence 2 refused", "remove, owed 2"]);
    await bench.beat(3, { droppedTopics: [TOPIC] });
    await bench.beat(2);
    expect(bench.decided()).toEqual(["unfence 2"]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["settled by 2"]);
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual([]);
    expect(bench.image.tombstoneCount).toBe(0);
  });

  test("of a topic without a live replica end as soon as it is marked", async () => {
    const bench = await active(1, 2);
    bench.createTopic([2]);
    bench.refused(2);
    await bench.world.runFor(1);
    bench.commands.length = 0;
    mark(bench);
    await bench.world.runFor(1);
    expect(bench.decided()).toEqual(["delete-topic", "remove, owed 2"]);
  });

  test("a new controller finds what the one before has begun", async () => {
    const bench = await active(1, 2);
    bench.createTopic([1, 2]);
    bench.controller.onControllerChanged(false);
    mark(bench);
    bench.commands.length = 0;
    bench.controller.onControllerChanged(true);
    await bench.beat(1, { droppedTopics: [TOPIC] });
    await bench.beat(2, { droppedTopics: [TOPIC] });
    expect(bench.decided()).toEqual(["remove, owed "]);
  });
});

describe("registrations", () => {
  test("D-6: another disk is let in when the session has ended, not before", async () => {
    const bench = await active(1, 2);
    const rival = {
      clusterId: CLUSTER,
      nodeId: toNodeId(2),
      directoryId: idOf(50) as DirectoryId,
      incarnationId: idOf(51) as IncarnationId,
      restart: "first" as const,
      address: "rival:7070",
      versionsMin: 1,
      versionsMax: 2,
      lastBrokerEpoch: -1,
    };
    await expect(bench.controller.register(rival)).rejects.toMatchObject({ code: "DUPLICATE_BROKER_REGISTRATION" });
    await bench.world.runFor(SESSION_MS + 300);
    await bench.controller.register(rival);
    const known: NodeId = toNodeId(2);
    expect(bench.image.broker(known)).toMatchObject({ address: "rival:7070", restart: "changed-disk" });
    await expect(bench.beat(2)).rejects.toMatchObject({ code: "STALE_BROKER_EPOCH" });
  });

  test("nobody is let in by a node that is not the controller, nor by one that lost it meanwhile", async () => {
    const bench = await active(1);
    bench.refuseWith = { kind: "refused", error: "REQUEST_TIMED_OUT", message: "nobody knows" };
    await expect(bench.register(2)).rejects.toMatchObject({ code: "REQUEST_TIMED_OUT" });
    bench.isController = false;
    bench.controller.onControllerChanged(false);
    await expect(bench.register(2)).rejects.toMatchObject({ code: "NOT_CONTROLLER" });
  });
});
