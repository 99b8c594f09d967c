// The wall clock of a node jumps. Its monotonic clock, by which it measures time, goes on as before, as on Linux.
import { setTimeout as sleep } from "node:timers/promises";
import { allOf, listed, targetsOf } from "./parts.ts";
import { risesOf, SHIM_NEEDS, shimOf, switchedFault } from "./shim-parts.ts";
import type { FaultKind } from "./types.ts";

const DAY_MS = 86_400_000;
/** The widest jump of a strobe, and the time from one to the next. */
const STROBE_MS = 600_000;
const STROBE_EVERY_MS = 100;

const FORWARD = switchedFault({
  name: "clock-forward",
  says: "the wall clock is a day ahead",
  tolerates: "writes",
  faults: { clockOffsetMs: DAY_MS },
  counter: "clockReads",
  told: "readings of the clock shifted",
});

const BACK = switchedFault({
  name: "clock-back",
  says: "the wall clock is a day behind",
  tolerates: "writes",
  faults: { clockOffsetMs: -DAY_MS },
  counter: "clockReads",
  told: "readings of the clock shifted",
});

const STROBE: FaultKind = {
  name: "clock-strobe",
  says: `the wall clock jumps ${1000 / STROBE_EVERY_MS} times a second, by up to ${STROBE_MS / 60_000} minutes`,
  needs: SHIM_NEEDS,
  cluster: { shim: true },
  tolerates: "writes",
  inject: (cluster, target, rng) => {
    const ended = new AbortController();
    const struck = targetsOf(cluster, target).map((node) => {
      const shim = shimOf(node);
      return { node, shim, rises: risesOf(shim, "clockReads"), rng: rng.fork(`strobe ${node.nodeId}`) };
    });
    const run = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        for (const each of struck) each.shim.set({ clockOffsetMs: each.rng.between(-STROBE_MS, STROBE_MS) });
        await sleep(STROBE_EVERY_MS, undefined, { signal: ended.signal }).catch(() => undefined);
      }
    };
    const done = run();
    return Promise.resolve({
      description: `${listed(target)}: the wall clock jumps to and fro`,
      observed: () =>
        Promise.resolve(
          allOf(
            struck.map(({ node, rises }) =>
              rises() === 0 ? undefined : `node ${node.nodeId}: ${rises()} readings of the clock shifted`,
            ),
          ),
        ),
      heal: async () => {
        ended.abort();
        await done;
        for (const { shim } of struck) shim.clear();
      },
    });
  },
};

export const CLOCK_KINDS: readonly FaultKind[] = [FORWARD, BACK, STROBE];
