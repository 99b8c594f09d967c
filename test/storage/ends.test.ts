// Whatever the order of what is asked of a store, and whatever its disk fails: everything that waits is told, and a close ends (D-13, D-18).
import { expect, test } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { FileError } from "../../src/ports/files.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, makeDeps, ManualTimers, openStore, Recorder, settle, specOf } from "./support.ts";

/** The longest that something passing is waited for. */
const RETRY_MS = 1000;
const ROUNDS_MAX = 12;
/** Change nothing, or may be failed by nobody. */
const UNTOUCHED = new Set(["read", "size", "list", "close", "freeBytes", "lockDirectory"]);

interface Ground {
  readonly store: LogStoreImpl;
  readonly files: MemoryFiles;
  readonly timers: ManualTimers;
  readonly recorder: Recorder;
  readonly logs: readonly ReplicaLog[];
}

async function ground(): Promise<Ground> {
  const [files, timers, recorder] = [new MemoryFiles(), new ManualTimers(), new Recorder()];
  const store = await openStore(files, { segmentBytes: 400, tailCacheBytes: 4000 }, makeDeps(files, { timers }));
  store.listen(recorder);
  const logs = await Promise.all([1, 2, 3].map((number) => store.createLog(specOf(`log${number}`, 0, number))));
  for (const log of logs) for (let count = 0; count < 6; count++) appendBatch(log);
  await recorder.until(() => logs.every((log) => log.durableEnd === log.endOffset));
  return { store, files, timers, recorder, logs };
}

type Act = () => Promise<unknown>;

/** Each at most once at a time; no log is cut and appended to, or changed in two ways, at once. */
function actsOn({ store, logs }: Ground): ReadonlyMap<string, Act> {
  const [cut, dropped, changed] = logs as [ReplicaLog, ReplicaLog, ReplicaLog];
  const epochOf = (log: ReplicaLog): LeaderEpoch => ((log.epochs.at(-1)?.epoch ?? 0) + 1) as LeaderEpoch;
  const all = { limitOffset: Number.MAX_SAFE_INTEGER as Offset, maxBytes: 300, atLeastOne: true };
  return new Map<string, Act>([
    ["append", async () => void appendBatch(changed, { epoch: changed.epochs.at(-1)?.epoch ?? 0 })],
    ["create", () => store.createLog(specOf("log4", 0, 4))],
    ["delete", () => store.deleteLog(dropped)],
    ["truncate", () => cut.truncate(Math.max(0, cut.endOffset - 1) as Offset)],
    ["epoch", () => changed.startEpoch(epochOf(changed))],
    ["start", () => changed.advanceStart(3 as Offset)],
    ["reset", () => store.resetLog(changed, 0 as Offset)],
    ["broker epoch", () => store.storeBrokerEpoch(9)],
    ["checkpoint", () => store.checkpoint()],
    ["read", async () => cut.read(0 as Offset, all)],
  ]);
}

/** What waits still when everything had its time. */
async function left({ store, timers }: Ground, waiting: ReadonlySet<string>): Promise<string[]> {
  let isClosed = false;
  const rounds = async (hasEnded: () => boolean): Promise<void> => {
    for (let round = 0; round < ROUNDS_MAX && !hasEnded(); round++) {
      await settle(6);
      timers.fire(RETRY_MS);
    }
  };
  await rounds(() => waiting.size === 0);
  void store.close().then(() => (isClosed = true));
  await rounds(() => isClosed && waiting.size === 0);
  return isClosed ? [...waiting] : [...waiting, "close"];
}

async function steps(rng: Rng): Promise<void> {
  for (let count = rng.below(40); count > 0; count--) await undefined;
}

/** The change of this number fails; none when it is never reached. */
async function life(seed: number, failAt: number): Promise<{ readonly left: string[]; readonly hasFailed: boolean }> {
  const rng = createRng(seed);
  const all = await ground();
  let changes = 0;
  all.files.delayTurns = () => 1 + rng.below(30);
  all.files.onOperation = ({ kind, path }) => {
    if (!UNTOUCHED.has(kind) && ++changes === failAt)
      throw new FileError(rng.chance(0.8) ? "io" : "no-space", kind, path);
  };
  const waiting = new Set<string>();
  const acts = [...actsOn(all)];
  // These two wait for each other.
  const often = acts.filter(([name]) => name === "truncate" || name === "checkpoint");
  for (let count = 0; count < 14; count++) {
    const [name, act] = rng.pick(rng.chance(0.4) ? often : acts);
    if (waiting.has(name)) continue;
    waiting.add(name);
    const end = (): boolean => waiting.delete(name);
    act().then(end, end);
    if (rng.chance(0.5)) await steps(rng);
  }
  return { left: await left(all, waiting), hasFailed: all.recorder.failure !== undefined };
}

test("everything that is asked at once ends, and a close behind it", async () => {
  for (let seed = 1; seed <= 150; seed++) expect((await life(seed, 0)).left, `seed ${seed}`).toEqual([]);
});

test("so it does when the disk fails at any change", async () => {
  let failures = 0;
  for (let seed = 1; seed <= 250; seed++) {
    const { left: waits, hasFailed } = await life(seed, 1 + (seed % 90));
    expect(waits, `seed ${seed}`).toEqual([]);
    if (hasFailed) failures++;
  }
  expect(failures).toBeGreaterThan(100);
});
