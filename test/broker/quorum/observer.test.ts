// Which voter a node that is none pulls from.
import { expect, test } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { Observer, type Pulled } from "../../../src/broker/quorum/observer.ts";
import type { StateMachine } from "../../../src/broker/quorum/state-machine.ts";
import { OttlaError } from "../../../src/model/errors.ts";
import type { NodeId } from "../../../src/model/ids.ts";

const VOTERS = [1, 2, 3, 4, 5] as NodeId[];
const NOTHING_NEW: Pulled["response"] = { leaderId: 3, commitEnd: 0, start: 0, entries: [], snapshot: null };

/** Whom it asks until it was answered `answers` times; only `good` answers. */
async function askedOf(seed: number, good: NodeId, answers: number): Promise<readonly NodeId[]> {
  const asked: NodeId[] = [];
  let left = answers;
  await new Promise<void>((resolve) => {
    const observer = new Observer({
      timers: { after: (_, callback) => (setImmediate(callback), { cancel: () => undefined }), defer: setImmediate },
      rng: createRng(seed),
      machine: { end: 0, lastTerm: 0 } as StateMachine,
      targets: () => VOTERS,
      pull: async (from) => {
        asked.push(from);
        if (from !== good) throw new OttlaError("REQUEST_TIMED_OUT", "silent");
        if (--left === 0) {
          observer.isOn = false;
          resolve();
        }
        return { response: NOTHING_NEW, bodies: [] };
      },
      onCaughtUp: () => undefined,
      onLeader: () => undefined,
      onFailed: () => undefined,
    });
    observer.isOn = true;
  });
  return asked;
}

test("Q-24: each silent voter is asked once before one is asked again, and who answers is stayed with", async () => {
  for (let seed = 1; seed <= 50; seed++) {
    const asked = await askedOf(seed, 4 as NodeId, 3);
    const first = asked.indexOf(4 as NodeId);
    expect(new Set(asked.slice(0, first + 1)).size).toBe(first + 1);
    expect(asked.slice(first)).toEqual([4, 4, 4]);
  }
});
