// Processes that die at a named place between two durable steps, while they serve or while they start.
import { FAILPOINTS, type FailpointName } from "../../base/failpoint-names.ts";
import type { Rng } from "../../base/rng.ts";
import { failpointModule } from "../build.ts";
import type { ChaosNode } from "../cluster-types.ts";
import { type FailpointWish, failpointText } from "./failpoint-wish.ts";
import { exitsSince, faultEvent, startAll } from "./parts.ts";
import type { FaultKind } from "./types.ts";

/** How often a failpoint is reached by a node that takes records, so that a drawn count comes within some seconds. */
const SERVING: readonly { readonly name: FailpointName; readonly upTo: number }[] = [
  { name: "journal-written", upTo: 100 },
  { name: "journal-synced", upTo: 100 },
  { name: "metadata-written", upTo: 2 },
  { name: "metadata-synced", upTo: 2 },
];
/** Reached by the checkpoint of an ordered stop. */
const STOPPING: readonly FailpointName[] = [
  "segment-written",
  "journal-sealed",
  "journal-created",
  "checkpoint-sealed",
  "checkpoint-segments-synced",
  "checkpoint-image-written",
  "checkpoint-committed",
];
/** Reached by every start, after a kill, of a node that belongs to a cluster. */
const STARTING: readonly FailpointName[] = [
  "recovery-replayed",
  "recovery-image-written",
  "checkpoint-image-unnamed",
  "recovery-committed",
  "superblock-one-slot",
  "broker-epoch-unstored",
  "broker-epoch-stored",
];
/** Not reached by then: the start has gone on, or nothing brought it there. */
const DEATH_MS = 20_000;
/** Of a start: so often, one after another, each at another place (at most 5). */
const DEATHS = { low: 2, high: 5 } as const;

/** What a node is started with to die there. */
export function failpointEnvironment(wish: FailpointWish): Readonly<Record<string, string>> {
  return { OTTLA_FAILPOINT: failpointText(wish), NODE_OPTIONS: `--import ${failpointModule()}` };
}

/** Starts the node, stops it in order once it is ready if that is wanted, and waits for its death there. Rejects when it does not come, or ends in another way. */
export async function dieAt(node: ChaosNode, wish: FailpointWish, { stops = false } = {}): Promise<void> {
  const exits = exitsSince(node);
  const withdraw = node.expectExit(`failpoint ${failpointText(wish)}`);
  try {
    const start = node.start(failpointEnvironment(wish));
    if (stops && (await start)) await node.stop();
    const hasEnded = await node.untilEnd(DEATH_MS);
    if (!hasEnded) throw new Error(`node ${node.nodeId} did not come to ${failpointText(wish)} within ${DEATH_MS} ms`);
    await start;
    const [exit] = exits();
    if (exit?.signal !== "SIGABRT")
      throw new Error(`node ${node.nodeId} ended with ${exit?.signal ?? exit?.code} and not at ${failpointText(wish)}`);
  } finally {
    withdraw();
  }
}

interface FailpointShape {
  readonly stops?: boolean;
  readonly name: string;
  readonly says: string;
  readonly draw: (rng: Rng) => readonly FailpointWish[];
}

const SHAPES: readonly FailpointShape[] = [
  {
    name: "failpoint",
    says: "dies between two durable steps while it serves",
    draw: (rng) => {
      const { name, upTo } = rng.pick(SERVING);
      return [{ name, count: rng.between(1, upTo) }];
    },
  },
  {
    name: "failpoint-stop",
    says: "dies between two durable steps of the checkpoint with which it stops in order",
    stops: true,
    draw: (rng) => [{ name: rng.pick(STOPPING), count: 1 }],
  },
  {
    name: "failpoint-start",
    says: "dies between two durable steps of its start, 2 to 5 times, each time elsewhere",
    draw: (rng) => {
      const names = [...STARTING];
      const drawn = Array.from({ length: rng.between(DEATHS.low, DEATHS.high) }, () => {
        const [name] = names.splice(rng.below(names.length), 1);
        return name === undefined ? [] : [{ name, count: 1 }];
      });
      return drawn.flat();
    },
  },
];

function kindOf({ name, says, draw, stops = false }: FailpointShape): FaultKind {
  return {
    name,
    says,
    needs: ["failpoints"],
    tolerates: "writes",
    inject: (cluster, target, rng, history) => {
      const died: string[] = [];
      const strike = async (nodeId: number): Promise<void> => {
        const node = cluster.node(nodeId);
        const wishes = draw(rng.fork(`failpoints of ${nodeId}`));
        await node.kill();
        history(faultEvent(nodeId, "process death"));
        for (const wish of wishes) {
          await dieAt(node, wish, { stops });
          history(faultEvent(nodeId, "process death"));
          died.push(`node ${nodeId} at ${failpointText(wish)} (${FAILPOINTS[wish.name]})`);
        }
      };
      const done = Promise.all(target.map(strike));
      // Whoever heals hears of it.
      done.catch(() => undefined);
      return Promise.resolve({
        description: `nodes ${target.join(", ")}: ${says}`,
        observed: () => Promise.resolve(died.length < target.length ? undefined : died.join("; ")),
        heal: async () => {
          const results = await Promise.allSettled([done]);
          await startAll(target.map((nodeId) => cluster.node(nodeId)));
          for (const result of results) if (result.status === "rejected") throw result.reason;
        },
      });
    },
  };
}

export const FAILPOINT_KINDS: readonly FaultKind[] = SHAPES.map(kindOf);
