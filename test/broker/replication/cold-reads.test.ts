// Reads from disk beside the answers of one follower.
import { describe, expect, it } from "vitest";
import { Deadlines } from "../../../src/base/deadlines.ts";
import { Account } from "../../../src/broker/accountant.ts";
import { AnswerRoom } from "../../../src/broker/answer-room.ts";
import { ColdReads } from "../../../src/broker/replication/cold-reads.ts";
import type { FetchSession } from "../../../src/broker/replication/fetch-session.ts";
import { Slot } from "../../../src/broker/replication/slot.ts";
import type { Replica } from "../../../src/broker/replica.ts";
import { OttlaError } from "../../../src/model/errors.ts";
import type { Offset } from "../../../src/model/ids.ts";
import { createSimClock, createSimTimers, SimWorld } from "../../../src/sim/world.ts";
import type { ReadResult } from "../../../src/storage/types.ts";
import { host, TOPIC } from "./nodes.ts";

const MiB = 1024 * 1024;

class Bench {
  readonly world = new SimWorld({ seed: 1, host });
  readonly account: Account;
  readonly reads: ColdReads;
  readonly done: { readonly id: number; readonly atMs: number; readonly error: string | undefined }[] = [];
  begun = 0;
  under = 0;

  constructor() {
    const owner = this.world.startIncarnation("node");
    const clock = createSimClock(this.world, owner);
    const timers = createSimTimers(this.world, owner);
    this.account = new Account("unsent", 256 * MiB, (work) => timers.defer(work));
    this.reads = new ColdReads({
      clock,
      deadlines: new Deadlines({ clock, timers }),
      answers: new AnswerRoom({ unsentBytes: 0 }, this.account, 32 * MiB),
      bytesMax: MiB,
      guard: (work) => work(),
      onRead: (slot, error) => void this.done.push({ id: slot.id, atMs: this.world.nowMs, error }),
    });
  }

  /** A slot whose log answers after so long, with so many bytes; -1 = not at all. */
  slot(id: number, tookMs: number, sizeBytes = 1_000): Slot {
    const slot = new Slot({} as FetchSession, { slot: id, topicId: TOPIC, partition: id });
    const read = (): Promise<ReadResult> => {
      this.begun++;
      this.under++;
      return this.world.later({ delayMs: tookMs, kind: "read" }, () => {
        this.under--;
        if (sizeBytes < 0) throw new OttlaError("STORAGE_ERROR");
        return { chunks: [new Uint8Array(sizeBytes)], sizeBytes, nextOffset: 1 as Offset };
      });
    };
    slot.replica = { core: { writtenEnd: 1 }, log: { read } } as unknown as Replica;
    slot.state = "active";
    return slot;
  }
}

describe("reads from disk", () => {
  it("of slow partitions hold up those of others for less than 100 ms", async () => {
    const bench = new Bench();
    for (let id = 0; id < 6; id++) bench.reads.add(bench.slot(id, 5_000));
    const quick = bench.slot(9, 1);
    bench.reads.add(quick);
    expect(bench.begun).toBe(4);
    await bench.world.runFor(95);
    expect(bench.done).toMatchObject([{ id: 9 }]);
    expect(quick.cold?.result.sizeBytes).toBe(1_000);
  });

  it("are so many and no more, and so are results that nobody has taken", async () => {
    const bench = new Bench();
    const slots = Array.from({ length: 40 }, (_, id) => bench.slot(id, 100_000));
    for (const slot of slots) bench.reads.add(slot);
    await bench.world.runFor(10_000);
    expect(bench.begun).toBe(16);
    expect(bench.account.usedBytes).toBe(16 * MiB);
    const other = new Bench();
    const fast = Array.from({ length: 20 }, (_, id) => other.slot(id, 1));
    for (const slot of fast) other.reads.add(slot);
    await other.world.runFor(1_000);
    expect(other.begun).toBe(4);
    expect(other.account.usedBytes).toBe(4 * 1_000);
    for (const slot of fast.slice(0, 4)) other.reads.release(slot);
    await other.world.runFor(1_000);
    expect(other.begun).toBe(8);
    other.reads.close();
    expect(other.account.usedBytes).toBe(0);
  });

  it("that nobody wants any more are dropped when they come", async () => {
    const bench = new Bench();
    const slot = bench.slot(1, 50);
    bench.reads.add(slot);
    bench.reads.release(slot); // the disk still works on it
    slot.fromOffset = 7 as Offset;
    expect(bench.account.usedBytes).toBe(MiB);
    await bench.world.runFor(100);
    expect(slot.cold).toBeUndefined();
    expect(bench.account.usedBytes).toBe(0);
    expect(bench.done).toMatchObject([{ id: 1, error: undefined }]);
  });

  it("that fail are told with what is wrong, and free their place", async () => {
    const bench = new Bench();
    for (let id = 0; id < 5; id++) bench.reads.add(bench.slot(id, 1, id === 2 ? -1 : 1_000));
    await bench.world.runFor(100);
    expect(bench.done.find(({ id }) => id === 2)?.error).toBe("STORAGE_ERROR");
    expect(bench.done.map(({ id }) => id)).toContain(4);
  });
});
