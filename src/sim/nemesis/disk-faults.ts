// Faults of disks: failed syncs (D7), full ones (D9), bits that turn over in the metadata log (D5), lost and old ones (D11).
import type { DiskImage } from "../disk-image.ts";
import { MARK } from "../marks.ts";
import type { SimNode } from "../node.ts";
import type { Ground } from "./ground.ts";
import type { MachineFaults } from "./machine-faults.ts";

/** D-20: what a voter told within its last second the others may not have written down yet. */
const MARKS_WITHIN_MS = 2000;
/** How often it is looked whether the others hear a node, and how long that is tried. */
const CONTACT_CHECK_MS = 500;
const CONTACT_WAIT_MS = 12_000;
/** A node that refuses its disk for so long, or is refused for it, gets an empty one. */
const GIVEN_UP_AFTER_MS = 4000;

export class DiskFaults {
  readonly #ground: Ground;
  readonly #machines: MachineFaults;

  constructor(ground: Ground, machines: MachineFaults) {
    this.#ground = ground;
    this.#machines = machines;
    const { faults } = ground.swarm;
    ground.every(faults.failedSyncMs, "failed sync", () => this.#failSync());
    ground.every(faults.fullDiskMs, "full disk", () => this.#fill());
    ground.every(faults.rotMs, "rot", () => this.#rot());
    ground.every(faults.wipeMs, "wipe", () => this.#lose());
    ground.every(faults.oldDiskMs, "old disk", () => this.#ageDisk());
  }

  /** No fault is left, and whoever has a spoilt disk gets an empty one. */
  heal(): void {
    for (const node of this.#ground.cluster.nodes) {
      Object.assign(node.disk.faults, { failingSyncs: 0, failingDirectorySyncs: 0, foreignBytes: 0, openFailures: 0 });
      if (node.isSpoilt) this.#giveUpOn(node);
      node.isInRepair = false;
    }
  }

  /** D7, and now and then a power loss soon after, when what the sync lost is not visible any more. */
  #failSync(): void {
    const { rng, cluster } = this.#ground;
    const node = rng.pick(cluster.nodes);
    if (rng.chance(0.9)) node.disk.faults.failingSyncs++;
    else node.disk.faults.failingDirectorySyncs++;
    if (!rng.chance(0.5)) return;
    this.#ground.later(rng.between(1, 3000), "power loss after a failed sync", () => {
      if (node.state !== "down") this.#machines.crash(node, "power loss");
    });
  }

  /** D9: somebody else's bytes leave little or no room for a while. */
  #fill(): void {
    const { rng, cluster, world } = this.#ground;
    const { disk } = rng.pick(cluster.nodes);
    const leftBytes = rng.chance(0.5) ? 0 : rng.below(128 * 1024);
    disk.faults.foreignBytes = Math.max(0, disk.freeBytes - leftBytes);
    world.countFault("D9 disk filled");
    this.#ground.later(rng.between(50, 2500), "disk freed", () => {
      disk.faults.foreignBytes = 0;
    });
  }

  /** D5, at rest. */
  #rot(): void {
    this.#whenKnown(this.#ground.rng.pick(this.#ground.cluster.nodes), (node) => this.#spoil(node));
  }

  /**
   * What a node has promised is known to all the others: they have heard it for as long as they take to write that down (D-20). One that was
   * cut off meanwhile would know nothing, and no voter could tell an older state of this disk from the true one.
   */
  #whenKnown(node: SimNode, act: (node: SimNode) => void): void {
    const neededChecks = MARKS_WITHIN_MS / CONTACT_CHECK_MS;
    const check = (good: number, leftMs: number): void => {
      const count = this.#ground.isHeardByAll(node) ? good + 1 : 0;
      if (count >= neededChecks && this.#victim(node) !== undefined) return act(node);
      if (leftMs <= 0) return;
      this.#ground.later(CONTACT_CHECK_MS, "is it heard", () => check(count, leftMs - CONTACT_CHECK_MS));
    };
    check(0, CONTACT_WAIT_MS);
  }

  #spoil(node: SimNode): void {
    const { rng, cluster, world } = this.#ground;
    this.#takeDown(node);
    this.#ground.later(MARKS_WITHIN_MS, "rot", () => {
      const files = node.disk.image.filesBelow("data/metadata").filter(({ sizeBytes }) => sizeBytes > 0);
      if (files.length > 0) {
        const { path, sizeBytes } = rng.pick(files);
        const position = rng.below(sizeBytes);
        world.countFault("D5 bit flip in the metadata log");
        world.note(node.name, "rot", `${path} @${position} of ${sizeBytes}`);
        node.disk.image.flipBit(path, position, rng.below(8));
        node.isSpoilt = true;
        cluster.spoilt(node);
      }
      this.#bringBack(node);
      if (files.length > 0) this.#watchSpoilt(node);
    });
  }

  /** It works in spite of it, or gets an empty disk. */
  #watchSpoilt(node: SimNode): void {
    this.#ground.later(GIVEN_UP_AFTER_MS, "is it usable", () => {
      if (!node.isSpoilt) return;
      if (node.state === "running") {
        node.isSpoilt = false;
        this.#ground.world.sometimes(MARK.ROT_SURVIVED);
      } else if (node.refusal?.code === "DATA_DAMAGED" || this.#ground.cluster.mayLose(node)) this.#giveUpOn(node);
      else this.#watchSpoilt(node);
    });
  }

  #giveUpOn(node: SimNode): void {
    if (node.state !== "down") this.#machines.crash(node, "process death");
    this.#ground.world.countFault("D11 spoilt disk replaced");
    this.#ground.cluster.diskLost(node);
    node.wipe();
    if (this.#ground.isActive) node.start();
  }

  /** D11: an empty disk, as after the loss of the machine. */
  #lose(): void {
    const { world, cluster, rng } = this.#ground;
    const node = this.#victim();
    if (node === undefined) return;
    this.#takeDown(node);
    world.countFault("D11 disk wiped");
    cluster.diskLost(node);
    node.wipe();
    this.#ground.later(rng.between(20, 3000), "new disk", () => this.#bringBack(node));
  }

  /** D11: a copy is taken, and some time later it is put in the disk's place. */
  #ageDisk(): void {
    const { rng } = this.#ground;
    const node = rng.pick(this.#ground.cluster.nodes);
    if (node.isSpoilt || node.isInRepair) return;
    const copy = node.disk.copy();
    this.#ground.later(rng.between(MARKS_WITHIN_MS, 10_000), "old disk", () =>
      this.#whenKnown(node, () => this.#restore(node, copy)),
    );
  }

  #restore(node: SimNode, copy: DiskImage): void {
    const { world, cluster } = this.#ground;
    this.#takeDown(node);
    this.#ground.later(MARKS_WITHIN_MS, "old disk put in", () => {
      world.countFault("D11 old disk restored");
      cluster.diskLost(node);
      node.restore(copy);
      this.#bringBack(node);
      this.#ground.later(GIVEN_UP_AFTER_MS, "old disk given up", () => {
        if (node.isSpoilt) this.#giveUpOn(node);
      });
    });
  }

  #victim(node = this.#ground.rng.pick(this.#ground.cluster.nodes)): SimNode | undefined {
    const { cluster } = this.#ground;
    const isBusy = cluster.nodes.some(({ isSpoilt, isInRepair }) => isSpoilt || isInRepair);
    return isBusy || !cluster.mayLose(node) ? undefined : node;
  }

  #takeDown(node: SimNode): void {
    node.isInRepair = true;
    if (node.state !== "down") this.#machines.crash(node, "process death");
  }

  #bringBack(node: SimNode): void {
    node.isInRepair = false;
    if (node.state === "down") node.start();
  }
}
