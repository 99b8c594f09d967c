// Faults at rest of the files of partitions (D5, D6): of a node that is down, or under the feet of one that runs and hears nothing of it.
import { CLEANED_SUFFIX } from "../../storage/paths.ts";
import { AT_REST_KINDS, plantAtRest } from "../at-rest.ts";
import type { SimNode } from "../node.ts";
import { segmentBaseOf } from "../rot-ledger.ts";
import type { Ground } from "./ground.ts";
import type { MachineFaults } from "./machine-faults.ts";
import { partitionFilesOf } from "./partition-files.ts";

/** Mostly segments: what is kept beside them is made anew, or not used. */
const SEGMENT_CHANCE = 0.75;
const WHILE_DOWN_CHANCE = 0.3;

export class AtRestFaults {
  readonly #ground: Ground;
  readonly #machines: MachineFaults;

  constructor(ground: Ground, machines: MachineFaults) {
    this.#ground = ground;
    this.#machines = machines;
    ground.every(ground.swarm.faults.atRestMs, "fault at rest", () => this.#strike());
  }

  #strike(): void {
    const { rng, cluster } = this.#ground;
    const node = rng.pick(cluster.nodes);
    if (node.isSpoilt || node.isInRepair) return;
    if (!rng.chance(WHILE_DOWN_CHANCE)) return this.#plant(node);
    node.isInRepair = true;
    if (node.state !== "down") this.#machines.crash(node, "process death");
    this.#ground.later(rng.between(20, 2000), "fault at rest", () => {
      this.#plant(node);
      node.isInRepair = false;
      if (node.state === "down") node.start();
    });
  }

  #plant(node: SimNode): void {
    const { rng, cluster, world } = this.#ground;
    const { image } = node.disk;
    // A file that is still to take another's place is spared.
    const files = partitionFilesOf(image).filter(
      ({ path, partition }) => !path.endsWith(CLEANED_SUFFIX) && this.#isSpared(node, partition),
    );
    const segments = files.filter(({ path }) => segmentBaseOf(path) !== undefined);
    const pool = segments.length > 0 && rng.chance(SEGMENT_CHANCE) ? segments : files;
    if (pool.length === 0) return;
    const { path, partition } = rng.pick(pool);
    const suffix = path.slice(path.lastIndexOf("."));
    const others = image.filesBelow("data").flatMap((file) => (file.path.endsWith(suffix) ? [file.path] : []));
    const kind = rng.pick(AT_REST_KINDS);
    const planted = plantAtRest(image, path, { kind, rng, others });
    if (planted === undefined) return;
    const { from, to } = planted;
    world.countFault(`${kind === "misdirected write" || kind === "stale write" ? "D6" : "D5"} ${kind} at rest`);
    world.note(node.name, "rot", `${kind} of ${path} [${from}, ${to})`);
    cluster.rotPlanted(node, partition, planted);
  }

  /** Another good copy of the partition is there; or the seed is reckless. */
  #isSpared(node: SimNode, partition: string): boolean {
    const { cluster, swarm } = this.#ground;
    return swarm.faults.recklessness > 0 || !cluster.isLastCopy(node, partition);
  }
}
