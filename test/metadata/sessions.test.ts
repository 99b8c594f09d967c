// Sessions of brokers at the controller, and what it does about its own lateness (D-22).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { NodeId } from "../../src/model/ids.ts";
import { Sessions } from "../../src/metadata/sessions.ts";
import { node } from "./support.ts";

const SESSION_MS = 3_000;
const TICK_MS = 500;

/** A controller that begins at time 0. */
function begun(...nodeIds: number[]): Sessions {
  const sessions = new Sessions({ sessionMs: SESSION_MS, tickMs: TICK_MS });
  sessions.begin(nodeIds.map(node), 0);
  return sessions;
}

/** Ticks on time up to and including this one; what expired, with when. */
function walk(sessions: Sessions, fromMs: number, toMs: number): [number, readonly NodeId[]][] {
  const expired: [number, readonly NodeId[]][] = [];
  for (let nowMs = fromMs; nowMs <= toMs; nowMs += TICK_MS) {
    const gone = sessions.tick(nowMs);
    if (gone.length > 0) expired.push([nowMs, gone]);
  }
  return expired;
}

describe("a session", () => {
  test("lasts from the last word of the broker, and ends once", () => {
    const sessions = begun(2, 1);
    expect(walk(sessions, 500, 2_500)).toEqual([]);
    sessions.heard(node(2), 2_700);
    expect(walk(sessions, 3_000, 6_500)).toEqual([
      [3_000, [1]],
      [6_000, [2]],
    ]);
    expect([sessions.isLive(node(1)), sessions.isLive(node(2))]).toEqual([false, false]);
  });

  test("names those that end together in order", () => {
    expect(walk(begun(3, 1, 2), 500, 3_000)).toEqual([[3_000, [1, 2, 3]]]);
  });

  test("begins with the first word, and again after it ended", () => {
    const sessions = begun();
    sessions.heard(node(7), 400);
    expect(sessions.isLive(node(7))).toBe(true);
    expect(walk(sessions, 500, 3_500)).toEqual([[3_500, [7]]]);
    sessions.heard(node(7), 3_600);
    expect(sessions.isLive(node(7))).toBe(true);
  });

  test("ended by the controller does not expire", () => {
    const sessions = begun(1);
    sessions.end(node(1));
    expect(sessions.isLive(node(1))).toBe(false);
    expect(walk(sessions, 500, 9_000)).toEqual([]);
  });

  test("Q-21: a new controller gives everybody a fresh one, and forgets who is not registered", () => {
    const sessions = begun(1, 2);
    walk(sessions, 500, 2_500);
    sessions.begin([node(1)], 2_600);
    expect(sessions.isLive(node(2))).toBe(false);
    expect(walk(sessions, 3_100, 5_500)).toEqual([]);
    expect(walk(sessions, 5_600, 6_000)).toEqual([[5_600, [1]]]);
  });

  test("a controller again after a long time is not late", () => {
    const sessions = begun(1);
    sessions.begin([node(1)], 100_000);
    expect(walk(sessions, 100_500, 103_000)).toEqual([[103_000, [1]]]);
  });
});

describe("D-22: a controller that stood still", () => {
  test("looks again after it has read what waited: nobody who spoke meanwhile is fenced", () => {
    const sessions = begun(1, 2);
    expect(sessions.tick(TICK_MS)).toEqual([]);
    // Ten seconds stopped; the tick comes before what the brokers sent is read.
    expect(sessions.tick(10_000)).toEqual([]);
    sessions.heard(node(1), 10_001);
    expect(sessions.tick(10_500)).toEqual([2]);
    expect(sessions.isLive(node(1))).toBe(true);
  });

  test("looks again only once, however late it goes on to be", () => {
    const sessions = begun(1);
    expect(sessions.tick(10_000)).toEqual([]);
    expect(sessions.isLive(node(1))).toBe(true);
    expect(sessions.tick(20_000)).toEqual([1]);
  });

  test("a word in between earns the next second look", () => {
    const sessions = begun(1);
    sessions.tick(10_000);
    sessions.heard(node(1), 10_001);
    expect(sessions.tick(20_000)).toEqual([]);
    expect(sessions.tick(20_500)).toEqual([1]);
  });

  test.each([
    [0, [1]],
    [750, [1]],
    [751, []],
  ])("late by %d ms, where a quarter of the session is 750: expired %j", (lateMs, expected) => {
    const sessions = begun();
    sessions.heard(node(1), 0);
    sessions.begin([node(1)], 0);
    walk(sessions, 500, 2_500);
    expect(sessions.tick(3_000 + lateMs)).toEqual(expected);
  });

  test("over any pauses: who speaks every half second and is read before each second look is never fenced", () => {
    const pauses = fc.array(fc.record({ runMs: fc.nat(4_000), pauseMs: fc.nat(12_000) }), { maxLength: 12 });
    fc.assert(
      fc.property(pauses, fc.boolean(), (steps, readsFirst) => {
        const sessions = begun(1);
        let nowMs = 0;
        let nextTickMs = TICK_MS;
        let spokenMs = 0;
        const read = (): void => {
          while (spokenMs + 500 <= nowMs) spokenMs += 500;
          sessions.heard(node(1), nowMs);
        };
        const tick = (): void => {
          expect(sessions.tick(nowMs)).toEqual([]);
          nextTickMs = nowMs + TICK_MS;
        };
        for (const { runMs, pauseMs } of steps) {
          const untilMs = nowMs + runMs;
          while (nowMs < untilMs) {
            nowMs = Math.min(untilMs, nextTickMs, spokenMs + 500 > nowMs ? spokenMs + 500 : nowMs + 1);
            if (nowMs >= spokenMs + 500) read();
            if (nowMs >= nextTickMs) tick();
          }
          nowMs += pauseMs;
          if (readsFirst) read();
          if (nowMs >= nextTickMs) tick();
          read();
        }
      }),
      { numRuns: 300 },
    );
  });

  test("over any ticks: who is silent is fenced at the latest two ticks after its session", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 20, maxLength: 60 }), (gaps) => {
        const sessions = begun(1);
        let nowMs = 0;
        let due = 0;
        for (const gap of gaps) {
          nowMs += gap;
          if (nowMs >= SESSION_MS) due++;
          const expired = sessions.tick(nowMs);
          if (expired.length > 0) return;
          expect(due).toBeLessThan(2);
        }
      }),
    );
  });
});
