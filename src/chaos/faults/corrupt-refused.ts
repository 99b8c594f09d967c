// Files that nothing else can stand for: a node that has lost one, or finds it damaged, refuses to start, and serves nothing (DATA_DAMAGED, exit 20).
// The file comes back when the fault ends, as when the right disk is put in again.
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Rng } from "../../base/rng.ts";
import type { ChaosNode } from "../cluster-types.ts";
import { onlyTarget } from "./corrupt-atlas.ts";
import { damageFile } from "./corrupt-files.ts";
import { bringDown, startAgain, startRefused } from "./corrupt-parts.ts";
import type { FaultKind } from "./types.ts";

const ERROR = "DATA_DAMAGED";

/** What was done, and how it is undone. */
interface Damage {
  readonly what: string;
  readonly undo: () => void;
}

interface DamageOptions {
  readonly rng: Rng;
  /** Outside of the data directory: a node refuses what it does not know. */
  readonly aside: string;
}

interface RefusedShape {
  readonly name: string;
  readonly says: string;
  /** Below the data directory. */
  readonly file: (node: ChaosNode) => string;
  readonly damage: (path: string, options: DamageOptions) => Damage;
}

function named(node: ChaosNode, directory: string, pattern: RegExp): string {
  const name = readdirSync(join(node.dataDir, directory))
    .filter((each) => pattern.test(each))
    .toSorted((one, other) => one.localeCompare(other))
    .at(-1);
  if (name === undefined) throw new Error(`node ${node.nodeId} has no such file in ${directory}`);
  return join(directory, name);
}

function taken(path: string, { aside }: DamageOptions): Damage {
  renameSync(path, aside);
  return { what: "taken away", undo: () => renameSync(aside, path) };
}

const SHAPES: readonly RefusedShape[] = [
  {
    name: "lose-image",
    says: "the image of the last checkpoint is gone",
    file: (node) => named(node, "checkpoint", /\.image$/),
    damage: taken,
  },
  {
    name: "lose-superblock",
    says: "the superblock is gone",
    file: () => "superblock",
    damage: taken,
  },
  {
    name: "lose-vote",
    says: "term and vote (quorum-state) are gone",
    file: () => "metadata/quorum-state",
    damage: taken,
  },
  {
    name: "corrupt-metadata",
    says: "a bit in the first half of the metadata log is flipped",
    file: (node) => named(node, "metadata", /^\d{20}\.log$/),
    damage: (path, { rng }) => {
      const before = readFileSync(path);
      const what = damageFile(path, "flip", { rng, to: Math.floor(statSync(path).size / 2) });
      return { what, undo: () => writeFileSync(path, before) };
    },
  },
];

function kindOf({ name, says, file, damage }: RefusedShape): FaultKind {
  return {
    name,
    says: `${says}: the node refuses to start`,
    needs: ["signals"],
    tolerates: "writes",
    inject: async (cluster, target, rng, history) => {
      const node = onlyTarget(cluster, target);
      await bringDown(cluster, node, history);
      const path = file(node);
      const { what, undo } = damage(join(node.dataDir, path), { rng, aside: `${node.dataDir}.aside` });
      const refusal = await startRefused(node, ERROR).catch((error: unknown) => {
        // Nobody else heals what was not injected.
        undo();
        throw error;
      });
      return {
        description: `node ${node.nodeId}: ${path} ${what}`,
        observed: () => Promise.resolve(refusal),
        heal: async () => {
          undo();
          await startAgain(node);
        },
      };
    },
  };
}

export const REFUSED_KINDS: readonly FaultKind[] = SHAPES.map(kindOf);
