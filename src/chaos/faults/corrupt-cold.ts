// Cold segments damaged while the node is up and knows nothing of it: what nobody reads is found by the scrub, what somebody reads by the read, and either
// way mended from the others (D-16, D-17). Nothing of it may be served: readers go over everything from the start, now and then.
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Rng } from "../../base/rng.ts";
import type { ChaosCluster, ChaosNode } from "../cluster-types.ts";
import { onlyTarget } from "./corrupt-atlas.ts";
import { DAMAGE_MODES, damageFile } from "./corrupt-files.ts";
import { isMended, type PatrolPlace } from "./corrupt-patrol.ts";
import { type LoggedEvent, logSince } from "./node-log.ts";
import type { FaultKind } from "./types.ts";

const KiB = 1024;
const SCRUB_PERIOD_MS = 2_000;
/** A segment shorter than that says too little. */
const SEGMENT_BYTES_MIN = 1_024;
/** For the load to close some segments, and for all replicas to be there. */
const COLD_MS = 60_000;
const MENDED_MS = 60_000;
const LOOK_AGAIN_MS = 50;
/** Of one partition: what is mended is mended segment by segment. */
const SEGMENTS_MAX = 3;

interface ColdSegment extends PatrolPlace {
  readonly path: string;
}

/** Closed ones, which nobody writes any more. */
function coldSegmentsOf({ dataDir }: ChaosNode): readonly ColdSegment[] {
  return readdirSync(dataDir).flatMap((directory) => {
    const match = /^(.+)-(\d+)$/.exec(directory);
    if (match === null || !existsSync(join(dataDir, directory, "partition.metadata"))) return [];
    const place = { topic: match[1] ?? "", partition: Number(match[2]) };
    return readdirSync(join(dataDir, directory))
      .filter((name) => name.endsWith(".log"))
      .sort()
      .slice(0, -1)
      .map((name) => ({ ...place, path: join(dataDir, directory, name) }))
      .filter(({ path }) => statSync(path).size >= SEGMENT_BYTES_MIN);
  });
}

async function untilCold(cluster: ChaosCluster, node: ChaosNode): Promise<readonly ColdSegment[]> {
  const untilMs = performance.now() + COLD_MS;
  // The atlas: all others have what this one is about to lose.
  await cluster.untilHealthy(COLD_MS);
  for (;;) {
    const found = coldSegmentsOf(node);
    if (found.length > 0) return found;
    if (performance.now() > untilMs) throw new Error(`node ${node.nodeId} has no closed segment after ${COLD_MS} ms`);
    await sleep(LOOK_AGAIN_MS);
  }
}

interface Struck {
  readonly place: PatrolPlace;
  readonly what: string;
  /** What the files held. */
  readonly files: readonly { readonly path: string; readonly bytes: Buffer }[];
}

/** Some segments of one partition. */
function damageSome(cold: readonly ColdSegment[], rng: Rng): Struck {
  const place = rng.pick(cold);
  const left = cold.filter(({ topic, partition }) => topic === place.topic && partition === place.partition);
  const files: Struck["files"][number][] = [];
  const words: string[] = [];
  for (let count = 1 + rng.below(SEGMENTS_MAX); count > 0 && left.length > 0; count--) {
    const [{ path } = place] = left.splice(rng.below(left.length), 1);
    files.push({ path, bytes: readFileSync(path) });
    words.push(`${path.split("/").at(-1)} ${damageOne(path, rng)}`);
  }
  return { place, what: `${place.topic}-${place.partition}: ${words.join(", ")}`, files };
}

function damageOne(path: string, rng: Rng): string {
  const mode = rng.pick([...DAMAGE_MODES, "gone"] as const);
  if (mode !== "gone") return damageFile(path, mode, { rng });
  rmSync(path);
  return "gone";
}

const isOf = ({ fields }: LoggedEvent, { topic, partition }: PatrolPlace): boolean =>
  fields["topic"] === topic && fields["partition"] === partition;

/** Undefined: some of it is as it was damaged. */
function howMended(events: readonly LoggedEvent[], { place, files }: Struck): string | undefined {
  if (events.some((event) => event.event === "replica_dropped_to_fetch_anew" && isOf(event, place)))
    return "fetched anew";
  const areWhole = files.every(({ path, bytes }) => existsSync(path) && readFileSync(path).equals(bytes));
  return areWhole && isMended(events, place) ? "mended by segment" : undefined;
}

/** Found, mended and counted on again; how long each took. */
async function untilMended(
  cluster: ChaosCluster,
  { nodeId }: ChaosNode,
  options: { readonly struck: Struck; readonly events: () => readonly LoggedEvent[] },
): Promise<string> {
  const { struck, events } = options;
  const { topic, partition } = struck.place;
  const startedMs = performance.now();
  let foundMs: number | undefined;
  while (performance.now() < startedMs + MENDED_MS) {
    const told = events();
    const nowMs = Math.round(performance.now() - startedMs);
    if (told.some((event) => event.event === "replica_damaged" && isOf(event, struck.place))) foundMs ??= nowMs;
    const how = foundMs === undefined ? undefined : howMended(told, struck);
    if (how !== undefined && (await cluster.isr(topic, partition)).includes(nodeId))
      return `found within ${foundMs} ms, ${how} within ${nowMs} ms`;
    await sleep(LOOK_AGAIN_MS);
  }
  const how = foundMs === undefined ? "not found" : "found and not mended";
  throw new Error(`node ${nodeId}: the damage of ${struck.what} was ${how} in ${MENDED_MS} ms`);
}

export const COLD_KINDS: readonly FaultKind[] = [
  {
    name: "corrupt-cold",
    says: "closed segments of a node that is up have a bit flipped, a page zeroed or copied over, their end cut off, or are gone",
    needs: ["signals"],
    cluster: {
      settings: {
        "segment.bytes": 128 * KiB,
        "log.scrub.period.ms": SCRUB_PERIOD_MS,
        "checkpoint.interval.ms": 500,
        // So that what is read comes from the files.
        "tail.cache.bytes": 0,
      },
    },
    tolerates: "writes",
    inject: async (cluster, target, rng) => {
      const node = onlyTarget(cluster, target);
      const cold = await untilCold(cluster, node);
      const events = logSince(node);
      const struck = damageSome(cold, rng);
      const mended = untilMended(cluster, node, { struck, events });
      mended.catch(() => undefined);
      let evidence: string | undefined;
      return {
        description: `node ${node.nodeId}: ${struck.what}`,
        observed: () => Promise.resolve(evidence),
        heal: async () => {
          evidence = await mended;
        },
      };
    },
  },
];
