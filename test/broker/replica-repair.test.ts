// D-17: how the damage of a replica ends by segments, and what makes it be fetched anew as a whole.
import { expect, test } from "vitest";
import type { PartitionImage } from "../../src/metadata/image.ts";
import { OttlaError, type ErrorName } from "../../src/model/errors.ts";
import type { NodeId, Offset } from "../../src/model/ids.ts";
import type { Logger } from "../../src/ports/logger.ts";
import type { Replica } from "../../src/broker/replica.ts";
import { ReplicaRepair, type ReplicaRepairDeps } from "../../src/broker/replica-repair.ts";
import type { LogRepair } from "../../src/storage/types.ts";

const quiet: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => quiet,
};

const partition = { leader: 2 as NodeId, leaderEpoch: 7 } as PartitionImage;

/** Takes a byte for each offset in [from, end). */
class FakeRepair implements LogRepair {
  readonly events: string[] = [];
  readonly taken: number[] = [];
  refuses = false;
  isDone = true;
  #next: number;
  readonly #end: number;

  constructor(from: number, end: number) {
    this.#next = from;
    this.#end = end;
  }

  get nextOffset(): Offset | undefined {
    return this.#next < this.#end ? (this.#next as Offset) : undefined;
  }

  take(batches: Uint8Array): Promise<void> {
    if (this.refuses) return Promise.reject(new OttlaError("STORAGE_ERROR", "other bytes"));
    this.taken.push(...batches);
    this.#next += batches.length;
    return Promise.resolve();
  }

  finish(): Promise<boolean> {
    this.events.push("finish");
    return Promise.resolve(this.isDone);
  }

  giveUp(): Promise<void> {
    this.events.push("give up");
    return Promise.resolve();
  }
}

function replicaWith(repair: LogRepair | undefined, coreDamage?: string): Replica {
  const log = { topicId: "t", topic: "t", partition: 3, beginRepair: () => repair };
  return { log, topicName: "t", coreDamage } as unknown as Replica;
}

type Ask = (offset: number) => { readonly error?: ErrorName; readonly bytes?: readonly number[] };

/** What the leader says to each question; `asked` is where it was asked from. */
function leaderSaying(answer: Ask) {
  const asked: unknown[] = [];
  const ask = (nodeId: NodeId, _: number, request: { readonly entries: readonly { readonly offset: number }[] }) => {
    const [entry] = request.entries;
    asked.push([nodeId, entry]);
    const { error = "NONE", bytes } = answer(entry?.offset ?? -1);
    const bodies = bytes === undefined ? [] : [Uint8Array.from(bytes)];
    return Promise.resolve({ response: { entries: [{ index: 0, error, body: bodies.length - 1 }] }, bodies });
  };
  const links = { ask } as unknown as ReplicaRepairDeps["links"];
  return { repairs: new ReplicaRepair({ links, logger: quiet }), asked };
}

test("D-17: what is missing is asked of the leader in its epoch, from where the last answer ended", async () => {
  const { repairs, asked } = leaderSaying((offset) => ({ bytes: [offset, offset + 1] }));
  const repair = new FakeRepair(10, 16);
  expect(await repairs.repair(replicaWith(repair), partition)).toBe(true);
  expect(repair.taken).toEqual([10, 11, 12, 13, 14, 15]);
  expect(repair.events).toEqual(["finish"]);
  expect(asked).toEqual(
    [10, 12, 14].map((offset) => [2, expect.objectContaining({ topicId: "t", partition: 3, leaderEpoch: 7, offset })]),
  );
});

test("D-17: nothing is asked for a damage that no repair can end", async () => {
  const { repairs, asked } = leaderSaying(() => ({}));
  expect(await repairs.repair(replicaWith(undefined), partition)).toBe(false);
  expect(await repairs.repair(replicaWith(new FakeRepair(0, 1), "the log diverged"), partition)).toBe(false);
  expect(await repairs.repair(replicaWith(new FakeRepair(0, 1)), { ...partition, leader: null })).toBe(false);
  expect(asked).toEqual([]);
});

test("D-17: bytes that are refused, and offsets that the leader has no more, make it be fetched anew", async () => {
  const refusing = new FakeRepair(0, 4);
  refusing.refuses = true;
  const { repairs } = leaderSaying(() => ({ bytes: [1] }));
  expect(await repairs.repair(replicaWith(refusing), partition)).toBe(false);
  const gone = leaderSaying(() => ({ error: "OFFSET_OUT_OF_RANGE" })).repairs;
  const repair = new FakeRepair(0, 4);
  expect(await gone.repair(replicaWith(repair), partition)).toBe(false);
  expect([refusing.events, repair.events]).toEqual([["give up"], ["give up"]]);
  const unfinished = new FakeRepair(0, 1);
  unfinished.isDone = false;
  expect(await repairs.repair(replicaWith(unfinished), partition)).toBe(false);
});

test("D-17: troubles of the leader are passed on to be tried again, ten times in a row", async () => {
  for (const answer of [{ error: "STORAGE_ERROR" }, { error: "NOT_LEADER_OR_FOLLOWER" }, { bytes: [] }] as const) {
    const { repairs } = leaderSaying(() => answer);
    const replica = replicaWith(new FakeRepair(0, 4));
    for (let attempt = 1; attempt < 10; attempt++)
      await expect(repairs.repair(replica, partition)).rejects.toMatchObject({
        code: expect.not.stringMatching(/^STORAGE/),
      });
    expect(await repairs.repair(replica, partition)).toBe(false);
  }
});
