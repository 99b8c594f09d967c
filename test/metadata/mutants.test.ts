// Planted bugs of the metadata: a directed schedule for each goes red with the bug and is green without it.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { Sessions } from "../../src/metadata/sessions.ts";
import type { DirectoryId } from "../../src/model/ids.ts";
import { History, faultsOf, node, uuid } from "./support.ts";

afterEach(() => activateMutants([]));

/** A leader restarts within its session (D-1): its appends of before and after must not share a leader epoch. */
function restartedLeader(): string | undefined {
  const history = History.started([1, 2]);
  history.create("a", { partitions: 2 });
  const before = history.topic("a").partitions[0];
  history.register(1, { restart: "power-loss", hasLiveSession: true });
  const whileDown = faultsOf(history.image);
  if (whileDown.length > 0) return whileDown[0];
  history.unfence(1);
  const after = history.topic("a").partitions[0];
  expect([before?.leader, after?.leader]).toEqual([1, 1]);
  return (after?.leaderEpoch ?? 0) > (before?.leaderEpoch ?? 0) ? undefined : "two incarnations lead in one epoch";
}

/** The controller stood still for ten seconds while its brokers spoke (D-22). */
function pausedController(): string | undefined {
  const sessions = new Sessions({ sessionMs: 3_000, tickMs: 500 });
  sessions.begin([node(1)], 0);
  const first = sessions.tick(10_000);
  sessions.heard(node(1), 10_001);
  return [...first, ...sessions.tick(10_500)].length === 0 ? undefined : "a broker that spoke was fenced";
}

/** The first thing that is wrong with the image after one of the steps. */
function firstFault(history: History, ...steps: readonly (() => unknown)[]): string | undefined {
  for (const step of steps) {
    step();
    const [fault] = faultsOf(history.image);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function replicated(): History {
  const history = History.started([1, 2, 3]);
  history.create("a", { replicationFactor: 3 });
  return history;
}

/** The only replica in sync dies; another, left behind long ago, is there (M8). */
function lastInSyncDies(): string | undefined {
  const history = replicated();
  history.alter("a", 0, [1, 2]);
  history.fence(1, 2);
  const { leader, uncleanEpoch } = history.partition("a");
  return leader === null || uncleanEpoch >= 0 ? undefined : "elected from outside ISR and ELR";
}

/** Two wishes of one leader: the later one is granted first, and the one before comes late (M13). */
function lateWish(): string | undefined {
  const history = replicated();
  const { partitionEpoch } = history.partition("a");
  history.alter("a", 0, [1, 2]);
  const late = history.wishIsr("a", 0, [1, 3], { partitionEpoch });
  return late.kind === "refused" ? undefined : "an ISR decided on a state that has passed";
}

/** A follower restarts within its session with an empty disk; a wish made from what it had before comes late (M31, R-35). */
function lateWishOfBefore(): string | undefined {
  const history = replicated();
  history.alter("a", 0, [1, 2]);
  const { brokerEpoch } = history.broker(3);
  history.join(3);
  const late = history.wishIsr("a", 0, [1, 2, 3], { memberEpochs: { 3: brokerEpoch } });
  return late.kind === "refused" ? undefined : "a replica taken in for what it had in its life before";
}

/** min ISR 3 of 3 goes down to 1 while one is in sync and another eligible (D-5). */
function loweredMinIsr(): string | undefined {
  const history = replicated();
  const configs = (value: string) => () => history.configure("a", "min.insync.replicas", value);
  return firstFault(history, configs("3"), () => history.alter("a", 0, [1]), configs("1"));
}

/** The ISR shrinks to one of three: alone it must commit nothing (D-5). */
function shrunkIsr(): string | undefined {
  const history = replicated();
  return firstFault(history, () => history.alter("a", 0, [1]));
}

/** An eligible replica comes back with another disk (D-6). */
function changedDisk(): string | undefined {
  const history = replicated();
  history.alter("a", 0, [1]);
  history.register(3, { directoryId: uuid(8_000) as DirectoryId, storedBrokerEpoch: null });
  return history.partition("a").elr.includes(node(3)) ? "an empty disk is eligible" : undefined;
}

/** The whole cluster loses its power (D-6). */
function powerLoss(): string | undefined {
  const history = replicated();
  for (const nodeId of [1, 2, 3]) history.register(nodeId, { restart: "power-loss" });
  for (const nodeId of [1, 2, 3]) history.unfence(nodeId);
  return history.partition("a").leader === null ? "a partition that does not come back by itself" : undefined;
}

/** The leader finds its log damaged, and is asked to lead again after a restart (D-17). */
function damagedLeader(): string | undefined {
  const history = History.started([1, 2]);
  history.create("a", { replicationFactor: 2 });
  history.fence(2);
  history.take(history.wishDamage(1, "a", 0));
  history.join(1);
  return history.partition("a").leader === 1 ? "a damaged replica leads" : undefined;
}

/** A follower that is damaged is dropped; its leader has not heard, and holds to its credit what it had (D-17). */
function creditOfBefore(): string | undefined {
  const history = replicated();
  history.alter("a", 0, [1, 2]);
  const { leaderEpoch } = history.partition("a");
  history.take(history.wishDamage(3, "a", 0));
  return history.partition("a").leaderEpoch > leaderEpoch ? undefined : "credit of a log that is gone counts";
}

const PLANS: readonly { readonly id: string; readonly run: () => string | undefined; readonly caughtBy: string }[] = [
  { id: "D-1", run: restartedLeader, caughtBy: "a-0 is led by a fenced one" },
  { id: "D-1e", run: restartedLeader, caughtBy: "two incarnations lead in one epoch" },
  { id: "M8", run: lastInSyncDies, caughtBy: "elected from outside ISR and ELR" },
  { id: "M13", run: lateWish, caughtBy: "an ISR decided on a state that has passed" },
  { id: "M31", run: lateWishOfBefore, caughtBy: "a replica taken in for what it had in its life before" },
  { id: "D-5", run: loweredMinIsr, caughtBy: "a-0 has an ELR that it does not need" },
  { id: "D-5m", run: shrunkIsr, caughtBy: "min ISR of a-0 is 1" },
  { id: "D-6", run: changedDisk, caughtBy: "an empty disk is eligible" },
  { id: "D-6p", run: powerLoss, caughtBy: "a partition that does not come back by itself" },
  { id: "D-17", run: damagedLeader, caughtBy: "a damaged replica leads" },
  { id: "D-17e", run: creditOfBefore, caughtBy: "credit of a log that is gone counts" },
  { id: "D-22", run: pausedController, caughtBy: "a broker that spoke was fenced" },
];

test.each(PLANS)("$id is caught", ({ id, run, caughtBy }) => {
  expect(run()).toBeUndefined();
  activateMutants([id]);
  expect(run()).toBe(caughtBy);
});
