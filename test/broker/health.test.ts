// What a node tells people of each state, and what helps.
import { describe, expect, test } from "vitest";
import type { ClusterMember } from "../../src/broker/cluster-member.ts";
import { healthOf, type HealthView, waitingFor } from "../../src/broker/health.ts";
import { OttlaError } from "../../src/model/errors.ts";
import type { ReplicaManager } from "../../src/broker/replica-manager.ts";
import type { LogStore } from "../../src/storage/types.ts";

interface Told {
  readonly trouble?: string;
  readonly refused?: readonly number[];
  readonly controllerId?: number | null;
  readonly registration?: string;
  readonly isUnfenced?: boolean;
}

function memberOf({
  trouble,
  refused = [],
  controllerId = 2,
  registration = "ok",
  isUnfenced = true,
}: Told): ClusterMember {
  const voters = [1, 2, 3].map((nodeId) => ({ nodeId, isRefused: refused.includes(nodeId) }));
  return {
    quorum: {
      controllerId,
      status: { trouble: trouble ?? null, voters },
      // Partition 2 has no other replica.
      image: { topic: () => ({ partitions: [[1, 2], [2, 1], [1]].map((replicas) => ({ replicas })) }) },
    },
    membership: { isUnfenced, describe: () => registration },
  } as unknown as ClusterMember;
}

interface Led {
  readonly isr: readonly number[];
  readonly minIsr?: number;
}

const replicasOf = (led: readonly Led[], damaged = 0): ReplicaManager =>
  ({
    led: new Set(led.map(({ isr, minIsr = 2 }) => ({ record: { isr, minIsr, replicas: [1, 2, 3] } }))),
    damaged: new Set(Array.from({ length: damaged }, (_, partition) => ({ log: { partition } }))),
  }) as unknown as ReplicaManager;

const view = (told: Told, rest: Partial<HealthView> = {}): HealthView => ({
  state: "running",
  failure: undefined,
  store: { isLowOnSpace: false } as unknown as LogStore,
  member: memberOf(told),
  replicas: replicasOf([]),
  ...rest,
});

describe("health", () => {
  test("a node in order", () => {
    expect(healthOf(view({}))).toEqual({
      live: true,
      ready: true,
      checks: {
        state: "running",
        disk: "ok",
        logs: "ok",
        replicas: "ok",
        quorum: "ok",
        controller: "node 2",
        registration: "ok",
      },
    });
  });

  test("one that opens its data directory", () => {
    const { ready, checks } = healthOf(view({}, { state: "starting", store: undefined, member: undefined }));
    expect(ready).toBe(false);
    expect(checks["quorum"]).toContain("the data directory is being opened");
    expect(waitingFor(undefined)).toBe(checks["quorum"]);
  });

  test("one without a quorum or a controller goes on with what it leads: ready, but not in order (Q-21)", () => {
    const told = { trouble: "waiting for a quorum: 1 of 3 voters reachable", controllerId: null };
    const { ready, checks } = healthOf(view(told));
    expect(ready).toBe(true);
    expect(checks["quorum"]).toBe(told.trouble);
    expect(checks["controller"]).toMatch(/none known: .* until a majority of the voters is up/);
    expect(waitingFor(memberOf(told))).toBe(told.trouble);
  });

  test("a fenced one is not ready", () => {
    const told = { registration: "fenced (session): leads nothing", isUnfenced: false };
    expect(healthOf(view(told))).toMatchObject({
      live: true,
      ready: false,
      checks: { registration: told.registration },
    });
    expect(waitingFor(memberOf(told))).toBe(told.registration);
  });

  test("D-20: a voter whose disk is refused is named, with the command that helps", () => {
    expect(healthOf(view({ refused: [3] })).checks["quorum"]).toMatch(/node 3 .*quorum replace/);
  });

  test("damaged logs, low space, and a failure", () => {
    const store = { isLowOnSpace: true } as unknown as LogStore;
    const { checks } = healthOf(view({}, { store, replicas: replicasOf([], 2) }));
    expect(checks["logs"]).toBe(
      "2 damaged: ottla log verify shows where; one is fetched anew as soon as another broker leads its partition",
    );
    const { logs } = healthOf(view({}, { replicas: replicasOf([], 3) })).checks;
    expect(logs, "a lone one is not promised to come back").toMatch(
      /^3 damaged: .* leads its partition; 1 of them is the only replica: .*ottla log dump/,
    );
    expect(checks["disk"]).toMatch(/low on space/);
    const failure = new OttlaError("DISK_FAILED", "the disk failed");
    const failed = healthOf(view({}, { state: "failed", failure }));
    expect(failed).toMatchObject({ live: false, ready: false, checks: { failure: "the disk failed" } });
  });

  test("replicas that are not in sync, and what that keeps from being taken", () => {
    const some = healthOf(view({}, { replicas: replicasOf([{ isr: [1, 2, 3] }, { isr: [1, 3] }]) }));
    expect(some).toMatchObject({
      ready: true,
      checks: { replicas: "1 partitions led here have replicas that are not in sync" },
    });
    const { checks } = healthOf(view({}, { replicas: replicasOf([{ isr: [1, 3] }, { isr: [1] }]) }));
    expect(checks["replicas"]).toMatch(
      /^2 partitions .*, 1 of them with fewer than min.insync.replicas: produce is refused/,
    );
  });
});
