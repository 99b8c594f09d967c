// Planted bugs of the metadata: a directed schedule for each goes red with the bug and is green without it.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { Sessions } from "../../src/metadata/sessions.ts";
import { History, faultsOf, node } from "./support.ts";

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

const PLANS: readonly { readonly id: string; readonly run: () => string | undefined; readonly caughtBy: string }[] = [
  { id: "D-1", run: restartedLeader, caughtBy: "a-0 is led by a fenced one" },
  { id: "D-1e", run: restartedLeader, caughtBy: "two incarnations lead in one epoch" },
  { id: "D-22", run: pausedController, caughtBy: "a broker that spoke was fenced" },
];

test.each(PLANS)("$id is caught", ({ id, run, caughtBy }) => {
  expect(run()).toBeUndefined();
  activateMutants([id]);
  expect(run()).toBe(caughtBy);
});
