// Files of a node that are damaged or lost while it is down, and that it can do without: it starts, notices, and gets from the others what it lacks.
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Rng } from "../../base/rng.ts";
import type { ChaosNode } from "../cluster-types.ts";
import { onlyTarget } from "./corrupt-atlas.ts";
import { DAMAGE_MODES, damageFile } from "./corrupt-files.ts";
import { longJournal } from "./corrupt-journal.ts";
import { bringDown, bringToRest, startAgain, verifyFault } from "./corrupt-parts.ts";
import { patrol, type PatrolPlace } from "./corrupt-patrol.ts";
import { logSince, untilLogged } from "./node-log.ts";
import type { FaultKind } from "./types.ts";

/** A segment shorter than that says too little. */
const SEGMENT_BYTES_MIN = 1_024;
const LOGGED_MS = 5_000;
const SLOTS = { superblock: 4_096, "metadata/quorum-state": 8_192 } as const;
const CACHES = /\.(index|timeindex|producers)$|^leader-epoch-checkpoint$/;

interface SegmentFile extends PatrolPlace {
  readonly path: string;
}

function partitionsOf({ dataDir }: ChaosNode): readonly (PatrolPlace & { readonly directory: string })[] {
  return readdirSync(dataDir).flatMap((name) => {
    const match = /^(.+)-(\d+)$/.exec(name);
    const isLog = match !== null && existsSync(join(dataDir, name, "partition.metadata"));
    return isLog ? [{ topic: match[1] ?? "", partition: Number(match[2]), directory: join(dataDir, name) }] : [];
  });
}

function segmentsOf(node: ChaosNode): readonly SegmentFile[] {
  return partitionsOf(node).flatMap(({ directory, ...place }) =>
    readdirSync(directory)
      .filter((name) => name.endsWith(".log") && statSync(join(directory, name)).size >= SEGMENT_BYTES_MIN)
      .map((name) => ({ ...place, path: join(directory, name) })),
  );
}

function damagedSegment(node: ChaosNode, rng: Rng): SegmentFile & { readonly what: string } {
  const segments = segmentsOf(node);
  if (segments.length === 0) throw new Error(`node ${node.nodeId} has no segment to damage`);
  const segment = rng.pick(segments);
  const mode = rng.pick(DAMAGE_MODES);
  return { ...segment, what: damageFile(segment.path, mode, { rng }) };
}

const SEGMENT: FaultKind = {
  name: "corrupt-segment",
  says: "a segment of a stopped node has a bit flipped, a page zeroed or copied over, or its end cut off",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, rng) => {
    const node = onlyTarget(cluster, target);
    await bringToRest(cluster, node);
    const { path, what, ...place } = damagedSegment(node, rng);
    const fault = await verifyFault(join(path, ".."));
    const events = logSince(node);
    await startAgain(node);
    let end = "";
    return {
      description: `node ${node.nodeId}: ${path.slice(node.dataDir.length + 1)}: ${what}`,
      // Damage that nothing can tell would be none.
      observed: () => Promise.resolve(fault === undefined ? undefined : `log verify: ${fault}${end}`),
      heal: async () => {
        end = `; then ${await patrol(cluster, node, { place, events })}`;
      },
    };
  },
};

const JOURNAL: FaultKind = {
  name: "corrupt-journal",
  says: "a bit is flipped in synced records of a killed node's journal: all its logs are damaged and fetched anew",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, rng, history) => {
    const node = onlyTarget(cluster, target);
    await bringDown(cluster, node, history);
    const { path, from, to } = longJournal(join(node.dataDir, "journal"));
    const what = damageFile(path, "flip", { rng, from, to });
    const events = logSince(node);
    await startAgain(node);
    const noticed = await untilLogged(events, ({ event }) => event === "journal_damaged", LOGGED_MS);
    return {
      description: `node ${node.nodeId}: ${path.slice(node.dataDir.length + 1)}: ${what}`,
      observed: () => {
        const anew = events().filter(({ event }) => event === "replica_dropped_to_fetch_anew").length;
        const said = `journal_damaged in its log, ${anew} replicas fetched anew`;
        return Promise.resolve(noticed === undefined ? undefined : said);
      },
      heal: () => Promise.resolve(),
    };
  },
};

const LOST_CACHES: FaultKind = {
  name: "lose-caches",
  says: "indexes, images of producers and epoch checkpoints of a stopped node are deleted: all can be made from the log",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target) => {
    const node = onlyTarget(cluster, target);
    await bringToRest(cluster, node);
    const lost = partitionsOf(node).flatMap(({ directory }) =>
      readdirSync(directory)
        .filter((name) => CACHES.test(name))
        .map((name) => join(directory, name)),
    );
    for (const path of lost) rmSync(path);
    await startAgain(node);
    return {
      description: `node ${node.nodeId}: ${lost.length} files that can be made again are gone`,
      observed: () => Promise.resolve(lost.length === 0 ? undefined : `${lost.length} files deleted, and it started`),
      heal: () => Promise.resolve(),
    };
  },
};

const SLOT: FaultKind = {
  name: "corrupt-slot",
  says: "one of the two slots of a killed node's superblock and of its quorum-state are zeroed: the other one has all",
  needs: ["signals"],
  tolerates: "writes",
  inject: async (cluster, target, rng, history) => {
    const node = onlyTarget(cluster, target);
    await bringDown(cluster, node, history);
    const done = Object.entries(SLOTS).map(([name, slotBytes]) => {
      const from = slotBytes * rng.below(2);
      return `${name} ${damageFile(join(node.dataDir, name), "zero", { rng, from, to: from + 4_096 })}`;
    });
    const events = logSince(node);
    await startAgain(node);
    const wanted = ["superblock_slot_damaged", "quorum_state_slot_damaged"];
    const seen = await Promise.all(
      wanted.map(async (name) => untilLogged(events, ({ event }) => event === name, LOGGED_MS)),
    );
    return {
      description: `node ${node.nodeId}: ${done.join("; ")}`,
      observed: () => Promise.resolve(seen.includes(undefined) ? undefined : `${wanted.join(" and ")} in its log`),
      heal: () => Promise.resolve(),
    };
  },
};

export const CORRUPT_KINDS: readonly FaultKind[] = [SEGMENT, JOURNAL, LOST_CACHES, SLOT];
