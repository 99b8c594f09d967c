// Producers of a log over a restart: the same table whatever was written, cut, checkpointed or spoiled; and what a start reads for it.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { nextToTell } from "../../src/model/producer-carry.ts";
import { buildToldProducers } from "../../src/model/producer-records.ts";
import { assignOffsets } from "../../src/model/record-batch.ts";
import { ProducerTable, type SequencedBatch, sequencedAt } from "../../src/model/producer-table.ts";
import { FileError } from "../../src/ports/files.ts";
import { type CrashChoices, type DiskImage, DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { ReplicaLog, StorageConfig } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, checksum, contentOf, makeBatch, openStore, Recorder, settle, specOf } from "./support.ts";

afterEach(() => activateMutants([]));

const SEGMENT = "/data/a-0/00000000000000000000.log";
const imagePath = (end: number): string => `/data/a-0/${String(end).padStart(20, "0")}.producers`;
/** One segment, in which an image is due after some 25 batches. */
const config: Partial<StorageConfig> = { segmentBytes: 8000, journalPinnedBytes: 1 << 20 };

/** A store with one log, and what a core does with its producers. */
class Node {
  readonly seen: SequencedBatch[] = [];
  readonly next = new Map<string, number>();

  readonly files: MemoryFiles;
  readonly store: LogStoreImpl;
  readonly log: ReplicaLog;
  readonly recorder: Recorder;

  private constructor(files: MemoryFiles, parts: { store: LogStoreImpl; log: ReplicaLog; recorder: Recorder }) {
    this.files = files;
    this.store = parts.store;
    this.log = parts.log;
    this.recorder = parts.recorder;
  }

  static async on(files = new MemoryFiles(), settings: Partial<StorageConfig> = {}): Promise<Node> {
    const store = await openStore(files, { ...config, ...settings });
    const recorder = new Recorder();
    store.listen(recorder);
    return new Node(files, { store, log: await store.createLog(specOf("a")), recorder });
  }

  /** Appends batches of one record each, by turns of three producers, and waits until they are durable. */
  async append(count: number, options: { readonly epoch?: number; readonly fill?: number } = {}): Promise<void> {
    const { log } = this;
    for (let left = count; left > 0; left--) {
      const producerId = left % 3;
      const producerEpoch = options.epoch ?? 0;
      const key = `${producerId} ${producerEpoch}`;
      const baseSequence = this.next.get(key) ?? 0;
      this.next.set(key, baseSequence + 1);
      const producer = { producerId, producerEpoch, baseSequence };
      this.observe(sequencedAt(appendBatch(log, { ...options, valueBytes: 10, producer }), 0));
    }
    await this.durable();
  }

  observe(batch: SequencedBatch): void {
    this.seen.push(batch);
    this.log.producers.observe(batch);
  }

  /** As a leader does it before its log begins further up (D-15). */
  async raiseStart(to: number, nowMs: number): Promise<string[]> {
    const { log } = this;
    const question = { startOffset: to, nowMs, expirationMs: 1_000, mayExpire: true };
    const told: string[] = [];
    for (let next = nextToTell(log.producers, question); next; next = nextToTell(log.producers, question)) {
      const batch = buildToldProducers(next, nowMs, checksum);
      assignOffsets(batch, log.endOffset, log.epochs.at(-1)?.epoch ?? 0);
      this.observe(sequencedAt(batch, 0));
      log.append(batch, log.endOffset, log.epochs.at(-1)?.epoch as LeaderEpoch);
      told.push(next.kind);
    }
    await this.durable();
    log.noteHighWatermark(log.endOffset);
    await log.advanceStart(to as Offset);
    return told;
  }

  async durable(): Promise<void> {
    const { log } = this;
    await this.recorder.until(() => log.durableEnd === log.endOffset);
  }

  async checkpoint(highWatermark: number = this.log.endOffset): Promise<void> {
    this.log.noteHighWatermark(highWatermark as Offset);
    await this.store.checkpoint();
  }

  async truncate(to: number): Promise<void> {
    expect(this.log.producers.truncate(to)).toBe(true);
    while (this.seen.length > 0 && (this.seen.at(-1) as SequencedBatch).lastOffset >= to) this.seen.pop();
    await this.log.truncate(to as Offset);
  }

  /** The disk after a crash; the node is no more. */
  crash(choices: CrashChoices = KEEP_ALL): DiskImage {
    this.files.kill();
    this.files.image.crash(choices);
    return this.files.image;
  }

  images(): number[] {
    return namesOf(this.files.image);
  }
}

function namesOf(image: DiskImage): number[] {
  const directory = image.find("/data/a-0");
  if (directory?.kind !== "directory") return [];
  return [...directory.live.keys()].flatMap((name) => (name.endsWith(".producers") ? [Number.parseInt(name, 10)] : []));
}

const tableOf = (batches: readonly SequencedBatch[], endOffset: number): ProducerTable => {
  const table = new ProducerTable();
  for (const batch of batches) table.observe(batch);
  table.advance(endOffset);
  return table;
};

/** Where every read of the log's first segment began. */
function watchReads(files: MemoryFiles): { readonly reads: () => number } {
  let reads = 0;
  files.onOperation = ({ kind, path }) => {
    if (kind === "read" && path === SEGMENT) reads++;
  };
  return { reads: () => reads };
}

async function expectSame(image: DiskImage, before: Node): Promise<Node> {
  const after = await Node.on(new MemoryFiles(image));
  expect(after.log.damage).toBeUndefined();
  expect(after.log.producers.endOffset).toBe(after.log.endOffset);
  expect(after.log.producers.equals(tableOf(before.seen, before.log.endOffset))).toBe(true);
  expect(after.log.producers.floor).toBeLessThanOrEqual(after.log.highWatermark);
  return after;
}

describe("D-15, 25: a start finds the producers of exactly the log", () => {
  test("without an image, from the journal alone, after any crash", async () => {
    for (const choices of [KEEP_ALL, DROP_ALL]) {
      const node = await Node.on();
      await node.append(17);
      await node.append(9, { epoch: 1 });
      expect(node.images()).toEqual([]);
      await expectSame(node.crash(choices), node);
    }
  });

  test("P-5: also of producers whose batches went with their segments, with their images and without", async () => {
    for (const keepsImages of [true, false]) {
      const node = await Node.on();
      await node.append(200);
      await node.checkpoint();
      await node.append(10);
      expect(await node.raiseStart(205, 1)).toEqual(["carried"]);
      await node.checkpoint();
      expect(node.log.segmentViews()[0]?.base).toBeGreaterThan(100);
      expect(node.log.producers.view().some(({ batches }) => (batches[0]?.baseOffset ?? 0) < 205)).toBe(true);
      const image = node.crash();
      if (!keepsImages) for (const end of namesOf(image)) image.unlink(imagePath(end));
      await expectSame(image, node);
    }
  });

  test("D-15f: and who was forgotten, when nobody is left", async () => {
    const node = await Node.on();
    await node.append(9);
    expect(await node.raiseStart(9, 1)).toEqual(["carried"]);
    expect(await node.raiseStart(10, 1_002)).toEqual(["expired", "carried"]);
    expect(node.log.producers.size).toBe(0);
    await node.checkpoint();
    await node.checkpoint();
    const after = await expectSame(node.crash(), node);
    expect(after.log.producers.forgottenMaxId).toBe(2);
  });

  test("after an ordered close, from an image at its end and nothing else", async () => {
    const node = await Node.on();
    await node.append(60);
    node.log.noteHighWatermark(60 as Offset);
    await node.store.close();
    expect(node.images()).toEqual([60]);
    await expectSame(node.files.image, node);
  });

  test("from an image and what came since, cut in between", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    expect(node.images()).toEqual([60]);
    await node.append(10, { epoch: 1 });
    await node.truncate(64);
    await node.append(3, { epoch: 2 });
    for (const choices of [KEEP_ALL, DROP_ALL]) {
      const copy = node.files.image.clone();
      copy.crash(choices);
      await expectSame(copy, node);
    }
  });

  test("from all of the log when no image is good, and a bad one goes", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    await node.append(60);
    await node.checkpoint();
    expect(node.images()).toEqual([60, 120]);
    const image = node.crash();
    for (const [spoiled, left] of [
      [[120], [60]],
      [[60, 120], []],
    ]) {
      const copy = image.clone();
      for (const end of spoiled as number[]) copy.flipBit(imagePath(end), 40, 1);
      const after = await expectSame(copy, node);
      expect(after.images()).toEqual(left);
    }
  });

  test("from all of the log when an image is missing, or another log's", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    const image = node.crash();
    const without = image.clone();
    without.unlink(imagePath(60));
    await expectSame(without, node);
    await expectSame(image, node);
  });

  test("of a log that was reset, and of one that was deleted and made anew", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    const fresh = await node.store.resetLog(node.log, 7 as Offset);
    expect([fresh.producers.endOffset, fresh.producers.size, node.images()]).toEqual([7, 0, []]);
    await node.store.deleteLog(fresh);
    const again = await node.store.createLog(specOf("a"));
    expect([again.producers.endOffset, again.producers.size]).toEqual([0, 0]);
    const after = await Node.on(new MemoryFiles(node.crash()));
    expect([after.log.producers.endOffset, after.log.producers.size]).toEqual([0, 0]);
  });
});

describe("what a start reads for it", () => {
  test("nothing for a log without producers", async () => {
    const reads: number[] = [];
    for (const size of [40, 70]) {
      const node = await Node.on();
      for (let left = size; left > 0; left--) appendBatch(node.log, { valueBytes: 10 });
      await node.durable();
      await node.checkpoint();
      expect(node.images()).toEqual([]);
      const files = new MemoryFiles(node.crash());
      const watch = watchReads(files);
      const after = await Node.on(files);
      expect(after.log.producers.endOffset).toBe(size);
      reads.push(watch.reads());
    }
    // The end of the last segment is looked at, as ever.
    expect(reads).toEqual([2, 2]);
  });

  test("of a log with them nothing below the image: rot there is met by who reads it", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    const image = node.crash();
    image.flipBit(SEGMENT, 65, 3);
    const withImage = image.clone();
    await expectSame(withImage, node);
    // Without the image all must be read, and a log with an unreadable range has no producers (D-15).
    image.unlink(imagePath(60));
    const after = await Node.on(new MemoryFiles(image));
    expect(after.log.damage?.reason).toMatch(/CRC|checksum/i);
  });
});

test("an image of a version that knows less is passed over: the log tells all of it", async () => {
  const node = await Node.on();
  await node.append(60);
  await node.checkpoint();
  const image = node.crash();
  // 3 -> 2, of both versions.
  for (const at of [5, 7]) image.flipBit(imagePath(60), at, 0);
  await expectSame(image, node);
});

describe("when an image is written", () => {
  test("only when the log has grown by a quarter of a segment, at most two are kept", async () => {
    const node = await Node.on();
    const found: number[][] = [];
    for (let round = 0; round < 8; round++) {
      await node.append(14);
      await node.checkpoint();
      found.push(node.images());
    }
    expect(found).toEqual([[], [28], [28], [28, 56], [28, 56], [56, 84], [56, 84], [84, 112]]);
  });

  test("not before all of it is committed: then the one that waited", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint(59);
    expect(node.images()).toEqual([]);
    await node.append(60);
    await node.checkpoint(60);
    expect(node.images()).toEqual([60]);
    const after = await expectSame(node.crash(DROP_ALL), node);
    expect(after.log.highWatermark).toBe(60);
  });

  test("not of what was cut meanwhile", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint(59);
    await node.truncate(59);
    await node.append(1, { epoch: 1 });
    node.log.noteHighWatermark(60 as Offset);
    // What was held is forgotten, and the log that is there now is captured.
    await node.checkpoint();
    expect(node.images()).toEqual([60]);
    await expectSame(node.crash(DROP_ALL), node);
  });

  test("the image of what was cut goes with the next checkpoint", async () => {
    const node = await Node.on();
    await node.append(60);
    await node.checkpoint();
    await node.truncate(30);
    await node.checkpoint();
    expect(node.images()).toEqual([30]);
    await expectSame(node.crash(DROP_ALL), node);
  });

  test("while the producers are behind the log there is none, and all is read again", async () => {
    const node = await Node.on();
    await node.append(60);
    const producer = { producerId: 1, producerEpoch: 7, baseSequence: 0 };
    node.seen.push(sequencedAt(appendBatch(node.log, { producer }), 0));
    await node.durable();
    await node.checkpoint();
    expect(node.images()).toEqual([]);
    await expectSame(node.crash(), node);
  });

  test("a disk without room for it is no failure", async () => {
    const node = await Node.on();
    await node.append(60);
    node.files.onOperation = ({ kind, path }) => {
      if (kind === "write" && path.endsWith(".producers")) throw new FileError("no-space", "write", path);
    };
    await node.checkpoint();
    expect(node.recorder.failure).toBeUndefined();
    node.files.onOperation = () => undefined;
    await node.append(1);
    await node.checkpoint();
    expect(node.images()).toEqual([60]);
    await expectSame(node.crash(), node);
  });

  test("a sync of it that fails stops the store like any (D-13)", async () => {
    const node = await Node.on();
    await node.append(60);
    node.files.onOperation = ({ kind, path }) => {
      if (kind === "datasync" && path.endsWith(".producers")) throw new FileError("io", "datasync", path);
    };
    await node.checkpoint();
    await settle();
    expect(node.recorder.failure?.code).toBe("DISK_FAILED");
    await expectSame(node.crash(), node);
  });
});

/** The image is of what an unclean election cut; others have its place now. Whether the next start knows the producers of what is there. */
async function replacedBelowAnImage(): Promise<boolean> {
  const node = await Node.on();
  await node.append(60);
  await node.checkpoint();
  await node.truncate(40);
  await node.append(25, { epoch: 1, fill: 90 });
  const expected = tableOf(node.seen, node.log.endOffset);
  const after = await Node.on(new MemoryFiles(node.crash()));
  return after.log.producers.equals(expected) && (await contentOf(after.log)).length === 65;
}

/** A cut and what came in its place are in the journal, behind the last image. */
async function replacedBehindAnImage(): Promise<boolean> {
  const node = await Node.on();
  await node.append(60);
  await node.checkpoint();
  await node.append(10);
  await node.truncate(64);
  await node.append(1, { epoch: 1 });
  const expected = tableOf(node.seen, node.log.endOffset);
  const after = await Node.on(new MemoryFiles(node.crash()));
  return after.log.producers.equals(expected);
}

/** Killed with batches behind the last image. */
async function batchesBehindAnImage(): Promise<boolean> {
  const node = await Node.on();
  await node.append(60);
  await node.checkpoint();
  await node.append(7);
  const expected = tableOf(node.seen, node.log.endOffset);
  const after = await Node.on(new MemoryFiles(node.crash()));
  return after.log.producers.equals(expected);
}

for (const [id, schedule] of [
  ["D-15", replacedBelowAnImage],
  ["M23", batchesBehindAnImage],
  ["D-15b", replacedBehindAnImage],
] as const) {
  test(`${id}: the directed schedule holds, and breaks with the planted bug`, async () => {
    expect(await schedule()).toBe(true);
    activateMutants([id]);
    expect(await schedule()).toBe(false);
  });
}

test("D-15: a log of which the journal gave up all that the checkpoint had is empty after a crash, and not damaged", async () => {
  const files = new MemoryFiles();
  const store = await openStore(files);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = await store.createLog(specOf("a"));
  // Its producers are not in step with it: the image says that it may have some.
  log.append(makeBatch(0, { count: 3 }), 2 as Offset, 0 as never);
  await recorder.until(() => log.durableEnd === 3);
  await store.checkpoint();
  await log.advanceStart(3 as Offset);
  files.kill();
  files.image.crash(DROP_ALL);
  const found = (await openStore(new MemoryFiles(files.image))).find(log.topicId, log.partition);
  expect(found).toMatchObject({ damage: undefined, startOffset: 3, endOffset: 3 });
  expect(found?.producers.endOffset).toBe(3);
});
