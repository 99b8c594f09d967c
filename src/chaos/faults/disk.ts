// Disks that are slow, take writes in part, or fail. A failed sync or write ends the broker (D-13): it comes back when the fault ends.
import type { ChaosNode } from "../cluster-types.ts";
import type { ShimCounters, ShimFaults } from "../shim/control.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { allOf, exitsSince, faultEvent, listed, startAll, targetsOf } from "./parts.ts";
import { losePowerOf } from "./power.ts";
import { risesOf, SHIM_NEEDS, shimOf, switchedFault } from "./shim-parts.ts";
import type { FaultKind } from "./types.ts";

/** A worn or overloaded disk: far slower than any that is well, far from the limit at which a replica counts as away. */
const SLOW_SYNC_MS = 200;
const SLOW_WRITE_MS = 10;
/** A broker that goes on so long after a failed sync does not stop because of it. */
const STOPS_WITHIN_MS = 10_000;

const SLOW_SYNC = switchedFault({
  name: "slow-sync",
  says: `each sync takes ${SLOW_SYNC_MS} ms longer`,
  tolerates: "writes",
  faults: { syncDelayMs: SLOW_SYNC_MS },
  counter: "syncsDelayed",
  told: "syncs delayed",
});

const SLOW_WRITE = switchedFault({
  name: "slow-write",
  says: `each write takes ${SLOW_WRITE_MS} ms longer`,
  tolerates: "writes",
  faults: { writeDelayMs: SLOW_WRITE_MS },
  counter: "writesDelayed",
  told: "writes delayed",
});

const SHORT_WRITE = switchedFault({
  name: "short-write",
  says: "each write takes only a part of its bytes",
  tolerates: "writes",
  faults: { shortWrites: true },
  counter: "writesShortened",
  told: "writes cut short",
});

interface DiskFailure {
  readonly name: string;
  readonly says: string;
  readonly faults: Partial<ShimFaults>;
  readonly counter: keyof ShimCounters;
  readonly told: string;
  /** What was not synced is gone in part when the node comes back. */
  readonly losesPower: boolean;
}

/** The node must end, with the exit code of a failed disk. */
async function untilStopped(node: ChaosNode, exits: ReturnType<typeof exitsSince>, told: string): Promise<void> {
  if (!(await node.untilEnd(STOPS_WITHIN_MS)))
    throw new Error(`node ${node.nodeId} goes on ${STOPS_WITHIN_MS} ms after ${told}`);
  const code = exits().at(-1)?.code;
  if (code !== EXIT.DISK_FAILED) throw new Error(`node ${node.nodeId} ended with ${code}, not ${EXIT.DISK_FAILED}`);
}

function failingDisk({ name, says, faults, counter, told, losesPower }: DiskFailure): FaultKind {
  return {
    name,
    says,
    needs: SHIM_NEEDS,
    cluster: { shim: true },
    tolerates: "writes",
    inject: async (cluster, target, rng, history) => {
      const nodes = targetsOf(cluster, target);
      const struck = nodes.map((node) => {
        const shim = shimOf(node);
        const withdraw = node.expectExit(says);
        return { node, shim, withdraw, rises: risesOf(shim, counter), exits: exitsSince(node) };
      });
      for (const { shim } of struck) shim.set(faults);
      try {
        await Promise.all(struck.map(async ({ node, exits }) => untilStopped(node, exits, told)));
      } catch (error) {
        for (const { shim } of struck) shim.clear();
        throw error;
      } finally {
        for (const { withdraw } of struck) withdraw();
      }
      for (const { nodeId } of nodes) history(faultEvent(nodeId, "process death"));
      const evidence = struck.map(({ node, rises }) =>
        rises() === 0 ? undefined : `node ${node.nodeId}: ${rises()} ${told}, then it stopped itself`,
      );
      return {
        description: `${listed(target)}: ${says}`,
        observed: () => Promise.resolve(allOf(evidence)),
        heal: async () => {
          for (const { node, shim } of struck) {
            shim.clear();
            if (losesPower) await losePowerOf(node, rng, history);
          }
          await startAll(nodes);
        },
      };
    },
  };
}

const SYNC_ERROR = failingDisk({
  name: "sync-error",
  says: "syncs fail with EIO",
  faults: { failSyncs: -1 },
  counter: "syncsFailed",
  told: "failed syncs",
  losesPower: false,
});

/** What Linux does after a failed sync: the bytes are there until they are read from the disk again. */
const SYNC_ERROR_LOST = failingDisk({
  ...{ name: "sync-error-lost", says: "a sync fails with EIO, and what it had to sync is gone in part" },
  ...{ faults: { failSyncs: 1 }, counter: "syncsFailed", told: "failed syncs", losesPower: true },
});

const WRITE_ERROR = failingDisk({
  name: "write-error",
  says: "writes fail with EIO",
  faults: { failWrites: -1 },
  counter: "writesFailed",
  told: "failed writes",
  losesPower: false,
});

export const DISK_KINDS: readonly FaultKind[] = [
  SLOW_SYNC,
  SLOW_WRITE,
  SHORT_WRITE,
  SYNC_ERROR,
  SYNC_ERROR_LOST,
  WRITE_ERROR,
];
