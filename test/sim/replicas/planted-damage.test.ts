// Which damage is excused: what was planted on the very disk that a node has now, also when that disk is a copy of one from before (16).
import { describe, expect, it } from "vitest";
import { createRng } from "../../../src/base/rng.ts";
import { toLogId, type NodeId } from "../../../src/model/ids.ts";
import { plantAtRest } from "../../../src/sim/at-rest.ts";
import { DiskImage } from "../../../src/sim/disk-image.ts";
import { NO_DAMAGE, PlantedDamage } from "../../../src/sim/replicas/planted-damage.ts";
import type { ReplicaLog } from "../../../src/storage/types.ts";

const NODE = 2 as NodeId;
const OTHER_NODE = 3 as NodeId;
const PARTITION = "t-0";
const PATH = `data/${PARTITION}/partition.metadata`;

/** As each process has one of its own for the same log. */
function damagedLog(logId: number): ReplicaLog {
  return { logId: toLogId(logId), damage: { reason: "planted", fromOffset: undefined } } as ReplicaLog;
}

function diskOf(): DiskImage {
  const image = new DiskImage();
  image.makeDirectory(`data/${PARTITION}`);
  const file = image.createFile(PATH);
  image.write(file, 0, new Uint8Array(100).fill(7));
  image.sync(file, image.sequence);
  return image;
}

/** A machine whose disk can be copied, and changed for another one. */
class Machine {
  image = diskOf();
  readonly damage = new PlantedDamage(() => this.image);
  nowMs = 0;

  plant(): void {
    const planted = plantAtRest(this.image, PATH, { kind: "bit flip", rng: createRng(1), others: [] });
    if (planted === undefined) throw new Error("nothing was planted");
    this.damage.plant(NODE, PARTITION, planted, this.nowMs);
  }

  /** A log that was damaged is dropped, another one takes its place, whole. */
  beginAnew(): void {
    this.image = diskOf();
    this.damage.opened(NODE, PARTITION);
    this.damage.outstanding(++this.nowMs);
    this.damage.found(NODE, PARTITION, { log: { logId: toLogId(12) } as ReplicaLog, nowMs: this.nowMs });
    this.nowMs += 60_000;
    this.damage.outstanding(this.nowMs);
  }

  found(logId: number): string {
    return this.damage.found(NODE, PARTITION, { log: damagedLog(logId), nowMs: this.nowMs });
  }
}

describe("16: an old disk that is put in", () => {
  it("brings back the rot that was in its files when it was copied", () => {
    const machine = new Machine();
    machine.plant();
    const copy = { image: machine.image.clone(), damage: machine.damage.onDisk(NODE) };
    machine.beginAnew();
    expect(machine.damage.isSpoilt(NODE, PARTITION, machine.nowMs)).toBe(false);
    machine.damage.diskLost(NODE, copy.damage);
    machine.image = copy.image;
    expect(machine.damage.outstanding(++machine.nowMs)).toHaveLength(1);
    expect(machine.found(11)).toBe("planted");
  });

  it("brings back the damage that its node had found and noted on it", () => {
    const machine = new Machine();
    machine.damage.spoil(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    const damage = machine.damage.onDisk(NODE);
    machine.beginAnew();
    machine.damage.diskLost(NODE, damage);
    expect(machine.found(11)).toBe("planted");
    // By the next process, too; but no other log.
    expect(machine.found(11)).toBe("planted");
    expect(machine.found(12)).toBe("unexplained");
  });

  it("brings back what nothing had shown when it was copied, of the log and of the journal", () => {
    for (const spoil of ["spoil", "spoilJournal"] as const) {
      const machine = new Machine();
      machine.damage[spoil](NODE, PARTITION);
      const damage = machine.damage.onDisk(NODE);
      machine.damage.diskLost(NODE, NO_DAMAGE);
      expect(machine.damage.isSpoilt(NODE, PARTITION, machine.nowMs)).toBe(false);
      machine.damage.diskLost(NODE, damage);
      expect(machine.found(11)).toBe("planted");
    }
  });

  it("has nothing of what was planted after it was copied, nor of other nodes", () => {
    const machine = new Machine();
    machine.damage.spoil(OTHER_NODE, PARTITION);
    const copy = { image: machine.image.clone(), damage: machine.damage.onDisk(NODE) };
    machine.plant();
    expect(machine.found(11)).toBe("planted");
    machine.damage.diskLost(NODE, copy.damage);
    machine.image = copy.image;
    expect(machine.found(11)).toBe("unexplained");
    expect(machine.damage.isSpoilt(OTHER_NODE, PARTITION, machine.nowMs)).toBe(true);
  });
});

describe("16: an empty disk", () => {
  it("has no damage, whatever the log ids of the one before were", () => {
    const machine = new Machine();
    machine.damage.spoil(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    machine.damage.diskLost(NODE, NO_DAMAGE);
    expect(machine.found(11)).toBe("unexplained");
  });
});

describe("16: a page that cannot be read (D8, seed 78541019)", () => {
  it("is met again by the next process, where the one that met it had no time to drop the log, until the file is another one", () => {
    const machine = new Machine();
    let isThere = true;
    machine.damage.makeUnreadable(NODE, PARTITION, () => isThere);
    expect(machine.found(11)).toBe("planted");
    machine.damage.opened(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    isThere = false;
    machine.damage.opened(NODE, PARTITION);
    expect(machine.found(11)).toBe("unexplained");
  });
});

describe("16: what was damaged in two places (seed 604792180)", () => {
  it("is found again after the repair of the one, which is of a segment; not a third time", () => {
    const machine = new Machine();
    machine.damage.spoil(NODE, PARTITION);
    machine.damage.spoil(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    machine.damage.opened(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    machine.damage.opened(NODE, PARTITION);
    expect(machine.found(11)).toBe("unexplained");
  });

  it("is gone with its log", () => {
    const machine = new Machine();
    machine.damage.spoil(NODE, PARTITION);
    machine.damage.spoil(NODE, PARTITION);
    expect(machine.found(11)).toBe("planted");
    machine.beginAnew();
    expect(machine.found(12)).toBe("unexplained");
  });
});

describe("16: a log that a process made and nobody looked at before it died (seed 719381101)", () => {
  it("is the one that was damaged, though another was seen before", () => {
    const machine = new Machine();
    machine.damage.found(NODE, PARTITION, { log: { logId: toLogId(4) } as ReplicaLog, nowMs: 0 });
    machine.damage.spoil(NODE, PARTITION);
    expect(machine.found(12)).toBe("planted");
    expect(machine.found(13)).toBe("unexplained");
  });
});
