// Snapshots on their way to the disk: in order, whole or not at all, one at a time.
import { describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { SnapshotKeeper } from "../../../src/broker/quorum/snapshot-keeper.ts";
import { Waiting } from "../../../src/broker/quorum/waiting.ts";
import { OttlaError } from "../../../src/model/errors.ts";
import type { SnapshotMeta, Term } from "../../../src/raft/types.ts";
import type { RaftStore, StoredSnapshotMeta } from "../../../src/storage/raft-types.ts";
import { settled } from "./hand-hosts.ts";
import { idOf } from "./support.ts";

const meta = (end: number, sizeBytes = 4): SnapshotMeta => ({
  end,
  lastTerm: 1 as Term,
  sizeBytes,
  configuration: { voters: [], learners: [] },
});

function make() {
  const events: string[] = [];
  const state = {
    failure: undefined as OttlaError | undefined,
    fault: undefined as OttlaError | undefined,
    /** The sync of a snapshot ends when this does. */
    synced: Promise.resolve(),
    onDurable: (_end: number): void => undefined,
  };
  const store = {
    beginSnapshot: (named: StoredSnapshotMeta) => {
      events.push(`begin ${named.end}`);
      return Promise.resolve({
        write: (position: number, bytes: Uint8Array) => {
          if (state.failure !== undefined) return Promise.reject(state.failure);
          events.push(`write ${named.end} at ${position}: ${bytes.length}`);
          return Promise.resolve();
        },
        finish: () => state.synced.then(() => void events.push(`finish ${named.end}`)),
        abandon: () => Promise.resolve(void events.push(`abandon ${named.end}`)),
      });
    },
  } as unknown as RaftStore;
  const keeper = new SnapshotKeeper({
    store,
    clusterId: () => idOf(77),
    check: () => {
      if (state.fault !== undefined) throw state.fault;
    },
    onDurable: ({ end }) => {
      events.push(`durable ${end}`);
      state.onDurable(end);
    },
    onSpoilt: () => void events.push("spoilt"),
    onFailed: ({ code }) => void events.push(`failed ${code}`),
  });
  const piece = (end: number, position: number, isLast: boolean): void =>
    keeper.take({ snapshot: meta(end), position, bytes: Uint8Array.of(position, 7), isLast });
  return { events, state, keeper, piece };
}

describe("a snapshot that arrives", () => {
  it("is durable only when all of it is synced, and is in memory until it is loaded", async () => {
    const { events, keeper, piece } = make();
    piece(10, 0, false);
    piece(10, 2, true);
    await keeper.settled();
    expect(events).toEqual(["begin 10", "write 10 at 0: 2", "write 10 at 2: 2", "finish 10", "durable 10"]);
    expect(keeper.takeArrived(9)).toBeUndefined();
    expect(keeper.takeArrived(10)).toEqual(Uint8Array.of(0, 7, 2, 7));
    expect(keeper.isBusy).toBe(false);
  });

  it("is left for another one that begins", async () => {
    const { events, keeper, piece } = make();
    piece(10, 0, false);
    piece(20, 0, false);
    piece(10, 2, true);
    piece(20, 2, true);
    await keeper.settled();
    expect(events).toEqual([
      "begin 10",
      "write 10 at 0: 2",
      "abandon 10",
      "begin 20",
      "write 20 at 0: 2",
      "write 20 at 2: 2",
      "finish 20",
      "durable 20",
    ]);
  });

  /** What the core is given to load of one that ends at 10, when another one begins to arrive while it is being synced. */
  async function loadedBeside(next: number) {
    const { events, state, keeper, piece } = make();
    const sync = new Waiting();
    const loaded: (Uint8Array | undefined)[] = [];
    state.synced = sync.promise;
    state.onDurable = (end) => void loaded.push(keeper.takeArrived(end));
    piece(10, 0, false);
    piece(10, 2, true);
    await settled();
    piece(next, 0, false);
    sync.done();
    await keeper.settled();
    return { events, keeper, piece, loaded };
  }

  it.each([10, 20])("is loaded whole although another leader's, that ends at %i, begins to arrive", async (next) => {
    const { events, keeper, piece, loaded } = await loadedBeside(next);
    expect(events.slice(3)).toEqual(["finish 10", "durable 10", `begin ${next}`, `write ${next} at 0: 2`]);
    expect(loaded).toEqual([Uint8Array.of(0, 7, 2, 7)]);
    piece(next, 2, true);
    await keeper.settled();
    expect(events.at(-1)).toBe(`durable ${next}`);
    expect(loaded).toHaveLength(2);
    expect(loaded[1]).toEqual(Uint8Array.of(0, 7, 2, 7));
    expect(keeper.isBusy).toBe(false);
  });

  it("mutant Q15a, what arrives is given for what is durable: a part of it, or nothing", async () => {
    activateMutants(["Q15a"]);
    expect((await loadedBeside(10)).loaded).toEqual([Uint8Array.of(0, 7)]);
    expect((await loadedBeside(20)).loaded).toEqual([undefined]);
    activateMutants([]);
  });

  it("that is durable and not needed any more is let go", async () => {
    const { keeper, piece } = make();
    piece(10, 0, false);
    piece(10, 2, true);
    await keeper.settled();
    expect(keeper.isBusy).toBe(true);
    keeper.dropUpTo(10);
    expect(keeper.isBusy).toBe(false);
    expect(keeper.takeArrived(10)).toBeUndefined();
  });

  it("that stopped arriving is in nobody's way once entries have overtaken it", async () => {
    const { events, keeper, piece } = make();
    piece(10, 0, false);
    await keeper.settled();
    keeper.dropUpTo(9);
    expect(keeper.isBusy).toBe(true);
    keeper.dropUpTo(10);
    expect(keeper.isBusy).toBe(false);
    await keeper.settled();
    expect(events.at(-1)).toBe("abandon 10");
    expect(await keeper.save(meta(12), Uint8Array.of(1, 2, 3, 4))).toBe(true);
  });

  it("that a full disk does not take begins again; a failed disk ends the quorum", async () => {
    const { events, state, keeper, piece } = make();
    state.failure = new OttlaError("STORAGE_FULL");
    piece(10, 0, false);
    await keeper.settled();
    expect(events).toEqual(["begin 10", "abandon 10", "spoilt"]);
    expect(keeper.isBusy).toBe(false);
    state.failure = new OttlaError("DISK_FAILED");
    piece(10, 0, false);
    await keeper.settled();
    expect(events.at(-1)).toBe("failed DISK_FAILED");
  });
});

describe("what arrives and is no snapshot", () => {
  it.each([{ mutants: [] }, { mutants: ["Q15c"] }])(
    "is spoilt before it takes the place of the log, and asked for again ($mutants)",
    async ({ mutants }) => {
      activateMutants(mutants);
      const { events, state, keeper, piece } = make();
      state.fault = new OttlaError("DATA_DAMAGED", "not JSON");
      piece(10, 0, true);
      await keeper.settled();
      const isKept = events.includes("durable 10");
      expect(isKept).toBe(mutants.length > 0);
      if (!isKept) expect(events.slice(2)).toEqual(["abandon 10", "spoilt"]);
      activateMutants([]);
    },
  );

  it("of a newer build ends this node by name", async () => {
    const { events, state, keeper, piece } = make();
    state.fault = new OttlaError("DATA_DIR_NEWER");
    piece(10, 0, true);
    await keeper.settled();
    expect(events.slice(2)).toEqual(["abandon 10", "failed DATA_DIR_NEWER"]);
  });
});

describe("a snapshot of its own", () => {
  it("goes in pieces, and is durable when it is synced", async () => {
    const { events, keeper } = make();
    const saved = keeper.save(meta(30, 600_000), new Uint8Array(600_000));
    expect(keeper.isBusy).toBe(true);
    expect(await saved).toBe(true);
    await keeper.settled();
    expect(events.slice(1, 4)).toEqual([
      "write 30 at 0: 262144",
      "write 30 at 262144: 262144",
      "write 30 at 524288: 75712",
    ]);
    expect(events.slice(4)).toEqual(["finish 30", "durable 30"]);
    expect(keeper.isBusy).toBe(false);
  });

  it("that the disk does not take is left", async () => {
    const { events, state, keeper } = make();
    state.failure = new OttlaError("STORAGE_FULL");
    expect(await keeper.save(meta(30), new Uint8Array(4))).toBe(false);
    expect(events).toEqual(["begin 30", "abandon 30"]);
    expect(keeper.isBusy).toBe(false);
  });
});
