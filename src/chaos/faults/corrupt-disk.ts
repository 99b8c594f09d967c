// A node that comes back on another disk: an empty one, or an older copy of its own. Nothing that it had promised counts any more, and its vote is for the operator to
// give to the new disk (`ottla quorum replace`).
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import { onlyTarget } from "./corrupt-atlas.ts";
import { bringDown, startAgain } from "./corrupt-parts.ts";
import { logSince, untilLogged } from "./node-log.ts";
import type { FaultKind } from "./types.ts";

/** Where a superblock's first slot has the id of its directory. */
const DIRECTORY_ID = { at: 44, bytes: 16 } as const;
const REPLACED_MS = 30_000;
const ASK_MS = 5_000;
const LOOK_AGAIN_MS = 200;
const REFUSED_MS = 15_000;
/** Lives on after its copy was made: what it promised meanwhile the copy knows nothing of. Others must have heard it (fault atlas: 2 s). */
const LIVED_MS = 3_000;

const directoryIdOf = ({ dataDir }: ChaosNode): string =>
  readFileSync(join(dataDir, "superblock"))
    .subarray(DIRECTORY_ID.at, DIRECTORY_ID.at + DIRECTORY_ID.bytes)
    .toString("hex");

/** A mount point stays. */
function wipe({ dataDir }: ChaosNode): void {
  for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name), { recursive: true, force: true });
}

/** The vote goes to the disk that it has now; tried until the node is registered with that. */
async function giveVote(cluster: ChaosCluster, { nodeId }: ChaosNode): Promise<void> {
  const admin = (await cluster.client()).admin();
  const untilMs = performance.now() + REPLACED_MS;
  for (;;) {
    const failure = await admin.replaceVoter(nodeId, { timeoutMs: ASK_MS }).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
    );
    if (failure === undefined) return;
    if (performance.now() > untilMs) throw failure;
    await sleep(LOOK_AGAIN_MS);
  }
}

const NEW_DISK: FaultKind = {
  name: "new-disk",
  says: "a killed node comes back with an empty data directory",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, _rng, history) => {
    const node = onlyTarget(cluster, target);
    await bringDown(cluster, node, history);
    const before = directoryIdOf(node);
    wipe(node);
    await startAgain(node);
    const after = directoryIdOf(node);
    return {
      description: `node ${node.nodeId} came back on an empty disk`,
      observed: () => Promise.resolve(after === before ? undefined : `directory ${after} in place of ${before}`),
      heal: async () => giveVote(cluster, node),
    };
  },
};

const OLD_DISK: FaultKind = {
  name: "old-disk",
  says: "a killed node comes back on a copy of its data directory from before its last life",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, _rng, history) => {
    const node = onlyTarget(cluster, target);
    const copy = `${node.dataDir}.copy`;
    await bringDown(cluster, node, history);
    cpSync(node.dataDir, copy, { recursive: true });
    await startAgain(node);
    await sleep(LIVED_MS);
    await bringDown(cluster, node, history);
    wipe(node);
    mkdirSync(node.dataDir, { recursive: true });
    cpSync(copy, node.dataDir, { recursive: true });
    rmSync(copy, { recursive: true, force: true });
    const listeners = cluster.nodes.filter(({ nodeId }) => nodeId !== node.nodeId).map(logSince);
    await startAgain(node);
    const refused = await Promise.race(
      listeners.map(async (events) => untilLogged(events, ({ event }) => event === "voter_refused", REFUSED_MS)),
    );
    return {
      description: `node ${node.nodeId} came back on an older copy of its disk`,
      observed: () =>
        Promise.resolve(refused === undefined ? undefined : `voter_refused: ${JSON.stringify(refused.fields)}`),
      heal: async () => {
        await node.kill();
        wipe(node);
        await startAgain(node);
        await giveVote(cluster, node);
      },
    };
  },
};

export const DISK_SWAP_KINDS: readonly FaultKind[] = [NEW_DISK, OLD_DISK];
