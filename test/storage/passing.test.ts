// Whatever passes (a full disk, too few descriptors) at whatever operation: a log holds exactly what it took and nobody cut or refused, before and after
// the next start, and is never damaged (D-18).
import { expect, test } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { LeaderEpoch, Offset } from "../../src/model/ids.ts";
import { baseOffsetAt } from "../../src/model/record-batch.ts";
import { FileError } from "../../src/ports/files.ts";
import { type DiskImage, DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { ReplacementWriter } from "../../src/storage/replacement-writer.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { LogSpec, ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles, type Operation } from "./memory-files.ts";
import { appendBatch, contentOf, makeDeps, ManualTimers, openStore, Recorder, settle, specOf } from "./support.ts";

const RETRY_MS = 1000;
const ACTS = 30;
const CONFIG = {
  segmentBytes: 400,
  indexIntervalBytes: 100,
  tailCacheBytes: 0,
  openFilesMax: 3,
  diskReserveBytes: 5000,
};

/** A log and what it must hold. */
interface Model {
  readonly spec: LogSpec;
  log: ReplicaLogImpl | undefined;
  batches: Uint8Array[];
  /** Before a cut that is under way, or was refused by a close: a start may find them. */
  uncut: Uint8Array[] | undefined;
  isBusy: boolean;
}

class World extends Recorder {
  readonly models: readonly Model[];

  constructor() {
    super();
    this.models = ["a", "b", "c"].map((name, place) => ({
      spec: specOf(name, 0, place + 1),
      log: undefined,
      batches: [],
      uncut: undefined,
      isBusy: false,
    }));
  }

  override onRefused(log: ReplicaLog, fromOffset: Offset): void {
    const model = this.models.find((each) => each.log === log);
    if (model !== undefined) cut(model, fromOffset);
    super.onRefused(log, fromOffset);
  }
}

function cut(model: Model, end: number): void {
  model.batches = model.batches.filter((batch) => baseOffsetAt(batch, 0) < end);
}

/** What a disk without room, or a process without descriptors, refuses. A sync or a cut of a file is never one of it. */
function passingAt({ kind, path }: Operation): "no-space" | "too-many-open" | undefined {
  if (kind === "open" || kind === "list") return "too-many-open";
  // In place: it has all its blocks.
  if (path.endsWith("/superblock")) return undefined;
  return kind === "write" || kind === "rename" || kind === "unlink" || kind === "makeDirectory"
    ? "no-space"
    : undefined;
}

async function grow(rng: Rng, model: Model): Promise<void> {
  const { log } = model;
  if (log === undefined) return;
  for (let count = 1 + rng.below(6); count > 0; count--) {
    const options = { epoch: log.epochs.at(-1)?.epoch ?? 0, fill: rng.below(250) };
    model.batches.push(appendBatch(log, options));
  }
}

async function truncate(rng: Rng, model: Model): Promise<void> {
  const { log } = model;
  if (log === undefined) return;
  const to = log.highWatermark + rng.below(log.endOffset - log.highWatermark + 1);
  const { truncations } = log;
  const uncut = [...model.batches];
  model.uncut = uncut;
  const isCut = (): boolean => log.truncations > truncations && model.log === log;
  await log.truncate(to as Offset).finally(() => {
    if (isCut()) cut(model, log.endOffset);
  });
  model.uncut = undefined;
}

async function commit({ log }: Model): Promise<void> {
  if (log !== undefined) log.noteHighWatermark(log.durableEnd);
}

async function advance(rng: Rng, { log }: Model): Promise<void> {
  if (log === undefined) return;
  const behind = log.highWatermark - log.startOffset;
  await log.advanceStart((log.startOffset + rng.below(behind + 1)) as Offset);
}

async function startEpoch({ log }: Model): Promise<void> {
  await log?.startEpoch(((log.epochs.at(-1)?.epoch ?? 0) + 1) as LeaderEpoch);
}

async function make(store: LogStoreImpl, model: Model): Promise<void> {
  if (model.log === undefined) model.log = (await store.createLog(model.spec)) as ReplicaLogImpl;
}

async function drop(store: LogStoreImpl, model: Model): Promise<void> {
  const { log } = model;
  if (log === undefined) return;
  model.log = undefined;
  model.batches = [];
  await store.deleteLog(log);
}

async function reset(store: LogStoreImpl, model: Model): Promise<void> {
  const { log } = model;
  if (log === undefined) return;
  model.log = undefined;
  model.batches = [];
  model.log = (await store.resetLog(log, 0 as Offset)) as ReplicaLogImpl;
}

/** Two closed segments become one file with the same batches. */
async function rewrite({ files }: LogStoreImpl, { log }: Model): Promise<void> {
  const [first, , end] = log?.segments.all ?? [];
  if (log === undefined || first === undefined || end === undefined || end.base > log.highWatermark) return;
  if (!log.segments.cleanedNames.areFree) return;
  const { truncations } = log;
  const batches = await log.copyBatches(first.base, { endOffset: end.base, maxBytes: 1 << 20 });
  const writer = await ReplacementWriter.open(files, log.segments, first);
  try {
    for (const batch of batches) await writer.append(batch);
    const state = await writer.finish(end.base);
    if (log.truncations !== truncations) await writer.discard();
    else void log.replace({ fromBase: first.base, endOffset: end.base, state });
  } catch (thrown) {
    await writer.discard();
    throw thrown;
  }
}

type Act = (rng: Rng, model: Model, store: LogStoreImpl) => Promise<void>;

const ACTS_OF_LOG: readonly Act[] = [
  (rng, model) => grow(rng, model),
  (rng, model) => grow(rng, model),
  (_, model) => commit(model),
  (rng, model) => truncate(rng, model),
  (rng, model) => advance(rng, model),
  (_, model) => startEpoch(model),
  (_, model, store) => rewrite(store, model),
  (_, model, store) => make(store, model),
];
const RARE: readonly Act[] = [(_, model, store) => drop(store, model), (_, model, store) => reset(store, model)];

async function runActs(rng: Rng, world: World, store: LogStoreImpl, timers: ManualTimers): Promise<Promise<unknown>[]> {
  const running: Promise<unknown>[] = [];
  for (let count = 0; count < ACTS; count++) {
    const model = rng.pick(world.models);
    if (rng.chance(0.3)) running.push(store.checkpoint());
    if (!model.isBusy) {
      model.isBusy = true;
      const act = rng.pick(rng.chance(0.08) ? RARE : ACTS_OF_LOG);
      const ended = (): void => {
        model.isBusy = false;
      };
      running.push(act(rng, model, store).then(ended, ended));
    }
    if (rng.chance(0.3)) await settle(1 + rng.below(3));
    if (rng.chance(0.2)) timers.fire(RETRY_MS);
  }
  return running;
}

/** Within as many retries as there may be one behind another. */
async function hasEnded(work: Promise<unknown>, timers: ManualTimers): Promise<boolean> {
  let isAtEnd = false;
  void work.then(() => (isAtEnd = true));
  for (let round = 0; round < 40 && !isAtEnd; round++) {
    await settle(4);
    timers.fire(RETRY_MS);
  }
  return isAtEnd;
}

/** What is not as the models say. `durableEnds`: what came behind may be gone. */
async function faultsOf(
  world: World,
  find: (model: Model) => ReplicaLog | undefined,
  durableEnds?: ReadonlyMap<Model, number>,
): Promise<string[]> {
  const faults: string[] = [];
  for (const model of world.models) {
    const log = find(model);
    if (model.log === undefined || log === undefined) continue;
    const { topic, startOffset, endOffset, damage } = log;
    if (damage !== undefined) faults.push(`${topic} is damaged: ${damage.reason}`);
    if (damage !== undefined) continue;
    if (endOffset < (durableEnds?.get(model) ?? 0)) faults.push(`${topic} has lost what was durable`);
    const isThere = (batch: Uint8Array): boolean => {
      const base = baseOffsetAt(batch, 0);
      return base >= startOffset && (durableEnds === undefined || base < endOffset);
    };
    const found = await contentOf(log).then((batches) => batches.map(String).join(), String);
    const mayHold = [model.batches, ...(durableEnds === undefined ? [] : [model.uncut ?? []])];
    if (!mayHold.some((batches) => found === batches.filter(isThere).map(String).join()))
      faults.push(`${topic} holds something else`);
  }
  return faults;
}

/** A store at whose disk something passing fails now and then, and all that it was asked. */
async function begun(seed: number) {
  const rng = createRng(seed);
  const [files, timers, world] = [new MemoryFiles(), new ManualTimers(), new World()];
  const store = await openStore(files, CONFIG, makeDeps(files, { timers }));
  store.listen(world);
  for (const model of world.models) await make(store, model);
  await settle();
  const often = rng.pick([0.02, 0.06, 0.2]);
  files.delayTurns = () => 1 + rng.below(5);
  files.onOperation = (operation) => {
    // And a disk that is full for a while, whose writes are torn.
    if (rng.chance(0.05))
      files.capacityBytes = rng.chance(0.5) ? Number.POSITIVE_INFINITY : files.image.usedBytes + rng.below(3000);
    const kind = passingAt(operation);
    if (kind !== undefined && rng.chance(often)) throw new FileError(kind, operation.kind, operation.path);
  };
  const running = await runActs(rng, world, store, timers);
  files.capacityBytes = Number.POSITIVE_INFINITY;
  return { rng, files, timers, world, store, running };
}

async function afterStart(world: World, image: DiskImage): Promise<string[]> {
  const ends = new Map(world.models.map((model) => [model, model.log?.durableEnd ?? 0]));
  const again = await openStore(new MemoryFiles(image), CONFIG);
  const failed = world.failure === undefined ? [] : [`the store has failed: ${world.failure.message}`];
  return [...failed, ...(await faultsOf(world, ({ spec }) => again.find(spec.topicId, spec.partition), ends))];
}

async function life(seed: number): Promise<string[]> {
  const { rng, files, timers, world, store, running } = await begun(seed);
  const isClosedEarly = rng.chance(0.4);
  const faults: string[] = [];
  if (!isClosedEarly) files.onOperation = () => undefined;
  else if (!(await hasEnded(store.close(), timers))) faults.push("close waits");
  files.onOperation = () => undefined;
  files.capacityBytes = Number.POSITIVE_INFINITY;
  if (!(await hasEnded(Promise.all(running), timers))) faults.push("somebody waits");
  if (!isClosedEarly) faults.push(...(await faultsOf(world, (model) => model.log)));
  if (!(await hasEnded(store.close(), timers))) faults.push("close waits");
  return faults.length > 0 ? faults : afterStart(world, files.image);
}

async function death(seed: number): Promise<string[]> {
  const { rng, files, timers, world } = await begun(seed);
  if (rng.chance(0.3)) timers.fire(RETRY_MS);
  for (let count = rng.below(60); count > 0; count--) await undefined;
  files.kill();
  const { image } = files;
  if (rng.chance(0.7)) image.crash(rng.chance(0.7) ? DROP_ALL : KEEP_ALL);
  else image.closeAll();
  return afterStart(world, image);
}

test("D-18: a log holds what it took, whatever passes and whenever the store is closed", async () => {
  for (let seed = 1; seed <= 80; seed++) expect(await life(seed), `seed ${seed}`).toEqual([]);
});

test("D-12, D-18: and what is durable, whenever the process dies or the power goes", async () => {
  for (let seed = 1; seed <= 80; seed++) expect(await death(seed), `seed ${seed}`).toEqual([]);
});
