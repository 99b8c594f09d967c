// Faults of disks: failed syncs (D7), full ones (D9), bits that turn over in the metadata log (D5), lost and old ones (D11).
import { nodeIdOf } from "../../raft/types.ts";
import type { DiskImage } from "../disk-image.ts";
import { MARK } from "../marks.ts";
import type { SimNode } from "../node.ts";
import type { DamageOnDisk } from "../replicas/planted-damage.ts";
import type { Ground } from "./ground.ts";
import type { MachineFaults } from "./machine-faults.ts";
import { type PartitionFile, partitionFilesOf } from "./partition-files.ts";

/** D-20: what a voter told within its last second the others may not have written down yet. */
const MARKS_WITHIN_MS = 2000;
/** How often it is looked whether the others hear a node, and how long that is tried. */
const CONTACT_CHECK_MS = 500;
const CONTACT_WAIT_MS = 12_000;
const SLOW = { least: 10, most: 300 };
const SLOW_MS_MAX = 15_000;
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
    ground.every(faults.slowDiskMs, "slow disk", () => this.#slowDown());
    ground.every(faults.partitionRotMs, "rot of a partition", () => this.#rotPartition());
    ground.every(faults.journalRotMs, "rot of a journal", () => this.#rotJournal());
    ground.every(faults.unreadableMs, "unreadable page", () => this.#makeUnreadable());
  }

  /** No fault is left, and whoever has a spoilt disk gets an empty one. */
  heal(): void {
    for (const node of this.#ground.cluster.nodes) {
      Object.assign(node.disk.faults, {
        failingSyncs: 0,
        failingDirectorySyncs: 0,
        foreignBytes: 0,
        openFailures: 0,
        slowness: 1,
      });
      if (node.isSpoilt && !this.#isNeeded(node)) this.#giveUpOn(node);
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

  /** D10. */
  #slowDown(): void {
    const { rng, cluster, world } = this.#ground;
    const { disk } = rng.pick(cluster.nodes);
    const factor = SLOW.least * (SLOW.most / SLOW.least) ** (rng.u32() / 2 ** 32);
    disk.faults.slowness = factor;
    world.countFault(factor < 50 ? "D10 slow disk" : "D10 very slow disk");
    this.#ground.later(rng.between(500, SLOW_MS_MAX), "disk is fast again", () => {
      if (disk.faults.slowness === factor) disk.faults.slowness = 1;
    });
  }

  /** D5, at rest, in a file of a partition. */
  #rotPartition(): void {
    const { rng, cluster, world } = this.#ground;
    const node = this.#spared();
    if (node === undefined) return;
    this.#takeDown(node);
    this.#ground.later(rng.between(20, 2000), "rot of a partition", () => {
      const found = this.#partitionFile(node, () => true);
      if (found !== undefined) {
        const { path, sizeBytes, partition } = found;
        const position = rng.below(sizeBytes);
        world.countFault("D5 bit flip in a partition");
        world.note(node.name, "rot", `${path} @${position} of ${sizeBytes}`);
        node.disk.image.flipBit(path, position, rng.below(8));
        cluster.logSpoilt(node, partition);
      }
      this.#bringBack(node);
    });
  }

  /** D5, at rest, in the journal: the logs that no checkpoint proves are damaged then. */
  #rotJournal(): void {
    const { rng, cluster, world } = this.#ground;
    const node = this.#spared();
    if (node === undefined) return;
    this.#takeDown(node);
    this.#ground.later(rng.between(20, 2000), "rot of a journal", () => {
      const proven = cluster.provenJournalOf(node);
      if (proven !== undefined) {
        const position = rng.between(proven.from, proven.to - 1);
        world.countFault("D5 bit flip in a journal");
        world.note(node.name, "rot", `${proven.path} @${position} of [${proven.from}, ${proven.to})`);
        node.disk.image.flipBit(proven.path, position, rng.below(8));
        cluster.journalSpoilt(node);
      }
      this.#bringBack(node);
    });
  }

  /** D8, under way. */
  #makeUnreadable(): void {
    const { rng, cluster, world } = this.#ground;
    const node = this.#spared();
    const found = node === undefined ? undefined : this.#partitionFile(node, (path) => path.endsWith(".log"));
    if (node === undefined || found === undefined) return;
    const file = node.disk.image.find(found.path);
    if (file?.kind !== "file") return;
    const position = rng.below(found.sizeBytes);
    world.countFault("D8 page made unreadable");
    world.note(node.name, "unreadable", `${found.path} @${position} of ${found.sizeBytes}`);
    node.disk.makeUnreadable(file, position);
    cluster.logSpoilt(node, found.partition);
    cluster.pageUnreadable(node, found.partition, () => {
      const { disk } = node;
      return disk.image.find(found.path) === file && disk.hasUnreadable(file);
    });
  }

  /** A node whose partitions have good copies elsewhere; any, now and then, where the seed is reckless. */
  #spared(): SimNode | undefined {
    const { rng, cluster, swarm } = this.#ground;
    const node = rng.pick(cluster.nodes);
    if (node.isSpoilt || node.isInRepair) return undefined;
    return swarm.faults.recklessness > 0 || !cluster.hasLastCopy(node) ? node : undefined;
  }

  #partitionFile(node: SimNode, isWanted: (path: string) => boolean): PartitionFile | undefined {
    const files = partitionFilesOf(node.disk.image).filter(({ path }) => isWanted(path));
    return files.length === 0 ? undefined : this.#ground.rng.pick(files);
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
    const { cluster } = this.#ground;
    const node = rng.pick(cluster.nodes);
    if (node.isSpoilt || node.isInRepair) return;
    const copy = { image: node.disk.copy(), damage: cluster.damageOn(node) };
    const brokerEpoch = cluster.brokerEpochOf(node);
    this.#ground.later(rng.between(MARKS_WITHIN_MS, 10_000), "old disk", () =>
      this.#whenKnown(node, () => {
        // D-6: an older state of the disk is known by its older broker epoch; one of the same life is told apart only by the other voters (D-20).
        if (cluster.brokerEpochOf(node) > brokerEpoch || !cluster.hasReplicas(node)) this.#restore(node, copy);
      }),
    );
  }

  #restore(node: SimNode, { image, damage }: { readonly image: DiskImage; readonly damage: DamageOnDisk }): void {
    const { world, cluster } = this.#ground;
    this.#takeDown(node);
    this.#ground.later(MARKS_WITHIN_MS, "old disk put in", () => {
      world.countFault("D11 old disk restored");
      cluster.diskLost(node, damage);
      node.restore(image);
      this.#bringBack(node);
      this.#watchOld(node);
    });
  }

  /** Who had no vote yet has promised nothing: it may be given one on its old disk, and the others may need that by now. */
  #watchOld(node: SimNode): void {
    this.#ground.later(GIVEN_UP_AFTER_MS, "old disk given up", () => {
      if (!node.isSpoilt) return;
      if (this.#ground.cluster.mayLose(node)) this.#giveUpOn(node);
      else this.#watchOld(node);
    });
  }

  /** The others cannot decide without it; one whose disk is refused is no help to them. */
  #isNeeded(node: SimNode): boolean {
    const wouldLive = this.#ground.cluster.wouldLive((replica) => nodeIdOf(replica) !== node.id);
    return !wouldLive && node.refusal?.code !== "DATA_DAMAGED";
  }

  #victim(node = this.#ground.rng.pick(this.#ground.cluster.nodes)): SimNode | undefined {
    const { cluster, swarm } = this.#ground;
    const isBusy = cluster.nodes.some(({ isSpoilt, isInRepair }) => isSpoilt || isInRepair);
    const isSpared = swarm.faults.recklessness === 0 && cluster.hasLastCopy(node);
    return isBusy || isSpared || !cluster.mayLose(node) ? undefined : node;
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
