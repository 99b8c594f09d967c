// A broker's registration and heartbeats, step by step, against a controller that answers as told.
import { describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { Membership, type ControllerCalls, type MembershipDeps } from "../../src/broker/membership.ts";
import { OttlaError, type ErrorName } from "../../src/model/errors.ts";
import { toBrokerEpoch, toNodeId } from "../../src/model/ids.ts";
import type { ClusterId, DirectoryId, IncarnationId, TopicId } from "../../src/model/ids.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { createSimClock, createSimTimers } from "../../src/sim/world.ts";
import type { BrokerHeartbeatRequest, RegisterBrokerRequest } from "../../src/wire/native/quorum-apis.ts";
import { live, makeWorld } from "./support.ts";

const CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ" as ClusterId;
const DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAg" as DirectoryId;
const MINE = "AAAAAAAAAAAAAAAAAAAAAw" as IncarnationId;
const OTHER = "BAAAAAAAAAAAAAAAAAAAAw" as IncarnationId;
const SELF = toNodeId(3);
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

type Answer<T> = T | OttlaError | "silence";

/** What happened, in order: `register`, `applied`, `stored 7`, `beat 7`. */
class Bench {
  readonly world = makeWorld().world;
  readonly events: string[] = [];
  readonly registered: RegisterBrokerRequest[] = [];
  readonly beats: BrokerHeartbeatRequest[] = [];
  image = new MetadataImage();
  controllerId: number | null = 1;
  brokerEpoch: number | null = null;
  storing: Answer<undefined> = undefined;
  onRegister: (request: RegisterBrokerRequest, to: number) => Answer<number> = () => this.registerAs(MINE);
  onBeat: (request: BrokerHeartbeatRequest, to: number) => Answer<{ isFenced: boolean; mayShutDown: boolean }> =
    () => ({
      isFenced: false,
      mayShutDown: false,
    });
  registrations = 0;
  readonly membership: Membership;
  #waiting: { readonly end: number; readonly resolve: () => void }[] = [];

  damaged: { readonly topicId: TopicId; readonly partition: number }[] = [];

  constructor() {
    const incarnation = this.world.startIncarnation("node3");
    this.apply({ type: "cluster", version: 1, clusterId: CLUSTER, metadataVersion: 2, timestampMs: 0 });
    const calls: ControllerCalls = {
      register: (to, request) => {
        this.events.push(`register at ${to}`);
        this.registered.push(request);
        return answered(this.onRegister(request, to), (epoch) => ({ brokerEpoch: toBrokerEpoch(epoch) }));
      },
      heartbeat: (to, request) => {
        this.events.push(`beat ${request.brokerEpoch} at ${to}`);
        this.beats.push(request);
        return answered(this.onBeat(request, to), (answer) => answer);
      },
    };
    this.membership = new Membership(
      {
        quorum: live<MembershipDeps["quorum"]>({
          image: () => this.image,
          controllerId: () => (this.controllerId === null ? null : toNodeId(this.controllerId)),
          clusterId: () => CLUSTER,
          waitForApplied: () => (end) =>
            new Promise((resolve) => {
              if (this.image.endOffset >= end) resolve();
              else this.#waiting.push({ end, resolve });
            }),
        }),
        store: live<MembershipDeps["store"]>({
          identity: () => ({ clusterId: CLUSTER, nodeId: SELF, directoryId: DIRECTORY }),
          restart: () => "clean",
          brokerEpoch: () => this.brokerEpoch,
          storeBrokerEpoch: () => (epoch) =>
            answered(this.storing, () => {
              this.events.push(`stored ${epoch}`);
              this.brokerEpoch = epoch;
            }),
        }),
        calls,
        clock: createSimClock(this.world, incarnation),
        timers: createSimTimers(this.world, incarnation),
        logger: silent,
        reports: () => ({ isLowOnSpace: false, droppedTopics: [] }),
        damaged: () => this.damaged,
        onRegistered: () => this.registrations++,
        onDefect: (defect) => this.world.fail(defect as Error),
      },
      {
        self: { nodeId: SELF, incarnationId: MINE },
        address: "node3:7070",
        metadataVersions: { min: 1, max: 2 },
        heartbeatMs: 500,
        sessionMs: 3_000,
      },
    );
  }

  apply(...records: MetadataRecord[]): number {
    const index = this.image.endOffset;
    this.image.apply(index, records);
    const reached = this.#waiting.filter(({ end }) => this.image.endOffset >= end);
    this.#waiting = this.#waiting.filter(({ end }) => this.image.endOffset < end);
    for (const { resolve } of reached) resolve();
    return index;
  }

  /** A registration that is committed and applied at once. Gives its epoch, which the same incarnation keeps. */
  registerAs(incarnationId: IncarnationId): number {
    const known = this.image.broker(SELF);
    if (known?.incarnationId === incarnationId) return known.brokerEpoch;
    const epoch = this.apply({
      type: "register-broker",
      version: 1,
      nodeId: SELF,
      directoryId: DIRECTORY,
      incarnationId,
      restart: "clean",
      address: "node3:7070",
      metadataVersions: { min: 1, max: 2 },
      timestampMs: 0,
    });
    this.membership.onApplied();
    return epoch;
  }

  unfence(epoch: number): void {
    this.apply({ type: "unfence-broker", version: 1, nodeId: SELF, brokerEpoch: toBrokerEpoch(epoch) });
    this.membership.onApplied();
  }

  /** What happened since the last call, and now. */
  async run(durationMs: number): Promise<string[]> {
    await this.world.runFor(durationMs);
    return this.events.splice(0);
  }
}

function answered<A, B>(answer: Answer<A>, map: (answer: A) => B): Promise<B> {
  if (answer instanceof OttlaError) return Promise.reject(answer);
  if (answer === "silence") return new Promise(() => undefined);
  return Promise.resolve(map(answer));
}

const refusal = (code: ErrorName) => new OttlaError(code, "as told");

describe("registration", () => {
  test("D-6: applied here, then stored, then confirmed, without any interval between; ready when unfenced", async () => {
    const bench = new Bench();
    let isReady = false;
    void bench.membership.ready.then(() => {
      isReady = true;
    });
    bench.membership.start();
    expect(await bench.run(5)).toEqual(["register at 1", "stored 1", "beat 1 at 1"]);
    expect(bench.beats[0]).toMatchObject({
      epochStored: true,
      incarnationId: MINE,
      wantsShutdown: false,
      appliedEnd: 2,
    });
    expect(bench.registered[0]).toMatchObject({
      clusterId: CLUSTER,
      directoryId: DIRECTORY,
      restart: "clean",
      lastBrokerEpoch: -1,
    });
    expect(isReady).toBe(false);
    bench.unfence(1);
    await bench.run(1);
    expect(isReady).toBe(true);
    expect(bench.membership.describe()).toBe("ok");
    expect(await bench.run(1_500)).toEqual(["beat 1 at 1", "beat 1 at 1", "beat 1 at 1"]);
  });

  test("nothing is stored or confirmed before the own image has it", async () => {
    const bench = new Bench();
    bench.onRegister = () => 1;
    bench.membership.start();
    expect(await bench.run(5_000)).toEqual(["register at 1"]);
    expect(bench.membership.describe()).toContain("waiting");
    bench.registerAs(MINE);
    expect(await bench.run(5)).toEqual(["stored 1", "beat 1 at 1"]);
  });

  test("an epoch that could not be stored is not confirmed: it is tried again", async () => {
    const bench = new Bench();
    bench.storing = refusal("STORAGE_FULL");
    bench.membership.start();
    await bench.run(2_000);
    expect(bench.beats).toEqual([]);
    expect(bench.membership.describe()).toContain("STORAGE_FULL");
    bench.storing = undefined;
    bench.onRegister = () => 1;
    await bench.run(600);
    expect(bench.beats[0]).toMatchObject({ brokerEpoch: 1, epochStored: true });
  });

  test("Q-22: told that its epoch has passed it registers again, as the same incarnation, with what its disk has", async () => {
    const bench = new Bench();
    bench.membership.start();
    await bench.run(10);
    bench.registerAs(OTHER);
    bench.onBeat = ({ brokerEpoch }) =>
      brokerEpoch === 1 ? refusal("STALE_BROKER_EPOCH") : { isFenced: false, mayShutDown: false };
    expect(await bench.run(700)).toEqual(["beat 1 at 1", "register at 1", "stored 3", "beat 3 at 1"]);
    expect(bench.registered.map(({ incarnationId }) => incarnationId)).toEqual([MINE, MINE]);
    expect(bench.registered[1]).toMatchObject({ lastBrokerEpoch: 1 });
    expect(bench.registrations).toBe(2);
  });

  test("a later registration of another process is seen: this one has no part in it", async () => {
    const bench = new Bench();
    bench.membership.start();
    await bench.run(10);
    bench.unfence(1);
    const epoch = bench.registerAs(OTHER);
    bench.unfence(epoch);
    expect(bench.membership.isUnfenced).toBe(false);
    expect(bench.membership.describe()).toContain("another process");
  });

  test("a start ends when another disk holds the node id for four sessions, or when asking again cannot help", async () => {
    const bench = new Bench();
    bench.onRegister = () => refusal("DUPLICATE_BROKER_REGISTRATION");
    let end: unknown;
    bench.membership.ready.catch((error: unknown) => {
      end = error;
    });
    bench.membership.start();
    await bench.run(11_000);
    expect(end).toBeUndefined();
    await bench.run(2_000);
    expect(end).toMatchObject({ code: "DUPLICATE_BROKER_REGISTRATION" });
    const old = new Bench();
    old.onRegister = () => refusal("UNSUPPORTED_VERSION");
    old.membership.start();
    await old.run(10);
    await expect(old.membership.ready).rejects.toMatchObject({ code: "UNSUPPORTED_VERSION" });
  });
});

describe("heartbeats", () => {
  async function registered(): Promise<Bench> {
    const bench = new Bench();
    bench.membership.start();
    await bench.run(10);
    bench.unfence(1);
    return bench;
  }

  test("go to where the controller is now, at once when it moves while an answer is waited for", async () => {
    const bench = await registered();
    bench.onBeat = (_request, to) => (to === 1 ? "silence" : { isFenced: false, mayShutDown: false });
    expect(await bench.run(600)).toEqual(["beat 1 at 1"]);
    bench.controllerId = 2;
    bench.image.skip(bench.image.endOffset);
    bench.membership.onApplied();
    expect(await bench.run(10)).toEqual(["beat 1 at 2"]);
  });

  test("that fail come again after a back-off of at most the interval, and a broker that leads goes on", async () => {
    const bench = await registered();
    bench.onBeat = () => refusal("CONNECTION_FAILED");
    const { length } = await bench.run(10_000);
    expect(length).toBeGreaterThan(18);
    expect(length).toBeLessThan(30);
    expect(bench.membership.describe()).toMatch(/^not heard of by a controller: .*CONNECTION_FAILED/);
    expect(bench.membership.isUnfenced).toBe(true);
    bench.onBeat = () => ({ isFenced: false, mayShutDown: false });
    await bench.run(600);
    expect(bench.membership.describe()).toBe("ok");
  });

  test("are not sent while no controller is known", async () => {
    const bench = await registered();
    bench.controllerId = null;
    expect(await bench.run(3_000)).toEqual([]);
    bench.controllerId = 2;
    expect((await bench.run(600))[0]).toBe("beat 1 at 2");
  });

  test("come at once when the own image says otherwise than the last answer: the controller waits to hear that a fencing is known", async () => {
    const bench = await registered();
    const fence = { type: "fence-broker", version: 2, nodeId: SELF, reason: "session" } as const;
    await bench.run(100);
    bench.apply({ ...fence, brokerEpoch: toBrokerEpoch(1) });
    bench.membership.onApplied();
    bench.onBeat = () => ({ isFenced: true, mayShutDown: false });
    expect(await bench.run(10)).toEqual(["beat 1 at 1"]);
    bench.unfence(1);
    bench.onBeat = () => ({ isFenced: false, mayShutDown: false });
    expect(await bench.run(10)).toEqual(["beat 1 at 1"]);
    expect(await bench.run(400)).toEqual([]);
  });

  test("say for how long no controller fences this broker: nothing that was answered fenced, nothing once it wants to go", async () => {
    const bench = await registered();
    const nowMs = () => bench.world.nowMs;
    await bench.run(500);
    expect(bench.membership.heardUntilMs - nowMs()).toBeGreaterThan(2_400);
    expect(bench.membership.heardUntilMs - nowMs()).toBeLessThanOrEqual(2_500);
    const before = bench.membership.heardUntilMs;
    bench.onBeat = () => ({ isFenced: true, mayShutDown: false });
    await bench.run(1_200);
    expect(bench.membership.heardUntilMs).toBe(before);
    bench.onBeat = () => ({ isFenced: false, mayShutDown: false });
    await bench.run(600);
    expect(bench.membership.heardUntilMs).toBeGreaterThan(before);
    const left = bench.membership.leave(5_000);
    expect(bench.membership.heardUntilMs).toBeLessThan(nowMs());
    await bench.run(1_000);
    expect(bench.membership.heardUntilMs, "whatever is answered").toBeLessThan(nowMs());
    bench.membership.stop();
    await left;
  });

  test("come at once when there is something to report, also when one is under way", async () => {
    const bench = await registered();
    await bench.run(100);
    bench.membership.kick();
    expect(await bench.run(10)).toEqual(["beat 1 at 1"]);
    bench.onBeat = () => {
      if (bench.beats.length % 2 === 1) bench.membership.kick();
      return { isFenced: false, mayShutDown: false };
    };
    expect(await bench.run(600)).toHaveLength(2);
  });
});

describe("damage (D-17)", () => {
  const topicId = "AAAAAAAAAAAAAAAAAAAAdw" as TopicId;

  /** A partition that this broker alone has; it has just come back, with the log of it damaged. */
  async function damaged(): Promise<Bench> {
    const bench = new Bench();
    const epoch = bench.registerAs(OTHER);
    bench.unfence(epoch);
    const topic = { type: "topic", version: 1, topicId, name: "a", configs: {}, replicationFactor: 1 } as const;
    bench.apply({ ...topic, replicas: [[SELF]], timestampMs: 0 });
    bench.damaged = [{ topicId, partition: 0 }];
    bench.membership.start();
    await bench.run(10);
    return bench;
  }

  function strike(bench: Bench): void {
    const { partitionEpoch } = bench.image.topic(topicId)?.partitions[0] ?? { partitionEpoch: -1 };
    const change = { partition: 0, leader: null, isr: [], elr: [], isUnclean: false, isNewEpoch: true, partitionEpoch };
    bench.apply({ type: "partition-change", version: 1, topicId, changes: [change] });
    bench.membership.onApplied();
  }

  test("its epoch is not confirmed before the damage is in the own image, and then at once", async () => {
    const bench = await damaged();
    const list = [{ topicId, partitions: [0] }];
    expect(bench.beats).toMatchObject([{ epochStored: false, damaged: list }]);
    expect(bench.membership.isDamageKnown(topicId, 0)).toBe(false);
    strike(bench);
    expect(bench.membership.isDamageKnown(topicId, 0)).toBe(true);
    await bench.run(1);
    expect(bench.beats).toMatchObject([{ epochStored: false }, { epochStored: true, damaged: list }]);
    bench.damaged = [];
    bench.membership.damageEnded(topicId, 0);
    await bench.run(1);
    expect(bench.beats.at(-1)).toMatchObject({ damaged: [] });
  });

  test("with the planted bug it would be elected", async () => {
    activateMutants(["D-17"]);
    const { beats } = await damaged();
    activateMutants([]);
    expect(beats).toMatchObject([{ epochStored: true }]);
  });
});

describe("goodbye (R-62)", () => {
  async function leaving(bench: Bench, timeoutMs = 2_000): Promise<number> {
    const beganMs = bench.world.nowMs;
    await bench.world.settle(bench.membership.leave(timeoutMs));
    return bench.world.nowMs - beganMs;
  }

  test("asks until it may go", async () => {
    const bench = new Bench();
    bench.membership.start();
    await bench.run(10);
    bench.onBeat = () => ({ isFenced: true, mayShutDown: bench.beats.length >= 4 });
    expect(await leaving(bench)).toBeLessThan(500);
    expect(bench.beats.at(-1)).toMatchObject({ wantsShutdown: true });
  });

  test("is bounded, and waits for nobody who cannot answer", async () => {
    const silentOne = new Bench();
    silentOne.membership.start();
    await silentOne.run(10);
    silentOne.onBeat = () => "silence";
    expect(await leaving(silentOne, 1_000)).toBeCloseTo(1_000, 0);
    const unreachable = new Bench();
    unreachable.membership.start();
    await unreachable.run(10);
    unreachable.onBeat = () => refusal("CONNECTION_FAILED");
    expect(await leaving(unreachable)).toBeLessThan(100);
    const alone = new Bench();
    alone.controllerId = null;
    alone.membership.start();
    expect(await leaving(alone)).toBe(0);
    const moved = new Bench();
    moved.membership.start();
    await moved.run(10);
    moved.onBeat = (_request, to) => {
      moved.controllerId = 2;
      return to === 2 ? { isFenced: true, mayShutDown: true } : refusal("NOT_CONTROLLER");
    };
    await leaving(moved);
    expect(moved.events.at(-1)).toBe("beat 1 at 2");
  });
});
