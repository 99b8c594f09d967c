// Whatever passes (a full disk, too few descriptors) or fails at whatever operation of the metadata store: what it says to be durable is there after a crash,
// what it refused is not, everything that waits is told, and a close ends (D-13, D-18, D-19).
import { expect, test } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import { FileError } from "../../src/ports/files.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { RaftStore, RaftWrite, SnapshotSink, StoredEntry } from "../../src/storage/raft-types.ts";
import type { MemoryFiles, Operation } from "./memory-files.ts";
import {
  entriesOf,
  freshFiles,
  metaOf,
  openRaft,
  reopen,
  saveSnapshot,
  snapshotBytes,
  textOf,
  vote,
  writeOf,
} from "./raft-support.ts";
import { makeDeps, ManualTimers, settle } from "./support.ts";

const STEPS = 25;

function passingAt({ kind, path }: Operation): "no-space" | "too-many-open" | undefined {
  if (kind === "open") return "too-many-open";
  // In place: it has all its blocks.
  if (path.endsWith("/quorum-state")) return undefined;
  return kind === "write" || kind === "rename" || kind === "unlink" ? "no-space" : undefined;
}

const CHANGES = new Set(["open", "write", "truncate", "datasync", "rename", "unlink", "syncDirectory"]);

/** What the host of a Raft core knows to be durable. */
class Model {
  /** Durable. */
  term = 1;
  /** Of the core, durable or not. */
  newestTerm = 1;
  /** A cut that was refused may have been made, or not. */
  keptMax = 0;
  start = 0;
  startTerm = 0;
  entries: StoredEntry[] = [];
  snapshotEnd = 0;
  fill = 0;

  get end(): number {
    return this.start + this.entries.length;
  }

  carriedOut({ hardState, resetLogTo, cutSuffixTo, entries }: RaftWrite): void {
    if (hardState !== null) this.term = hardState.term;
    if (resetLogTo !== null) {
      this.start = resetLogTo.start;
      this.startTerm = resetLogTo.startTerm;
      this.entries = [];
    }
    if (cutSuffixTo !== null || resetLogTo !== null) this.keptMax = 0;
    if (cutSuffixTo !== null) this.entries = this.entries.filter(({ index }) => index < cutSuffixTo);
    this.entries.push(...entries);
  }

  get lastTerm(): number {
    return this.entries.at(-1)?.term ?? this.startTerm;
  }
}

/** As the host does: after a refusal everything above what is durable is written anew. */
async function append(rng: Rng, store: RaftStore, model: Model): Promise<void> {
  const writes: RaftWrite[] = [];
  let next = model.end;
  for (let count = 1 + rng.below(3); count > 0; count--) {
    const to = next + 1 + rng.below(6);
    const entries = entriesOf(next, to, model.newestTerm, ++model.fill % 250);
    writes.push(writeOf({ entries, cutSuffixTo: writes.length === 0 ? next : null }));
    next = to;
  }
  const outcomes = await Promise.allSettled(writes.map((each) => store.write(each)));
  const refused = outcomes.findIndex(({ status }) => status === "rejected");
  const carriedOut = refused < 0 ? writes : writes.slice(0, refused);
  for (const each of carriedOut) model.carriedOut(each);
  // Nothing is carried out behind one that was refused.
  expect(outcomes.slice(carriedOut.length).every(({ status }) => status === "rejected")).toBe(true);
}

async function write(rng: Rng, store: RaftStore, model: Model): Promise<void> {
  const dice = rng.below(10);
  if (dice < 5) return append(rng, store, model);
  const hardState = vote(++model.newestTerm);
  let batch = writeOf({ hardState });
  if (dice < 8) {
    const to = Math.max(model.start, model.snapshotEnd, model.end - rng.below(9));
    // The core cuts only to put others in their place.
    const entries = entriesOf(to, to + 2, model.newestTerm, ++model.fill % 250);
    batch = writeOf({ hardState, cutSuffixTo: to, entries });
  } else if (model.snapshotEnd > model.start) batch = writeOf({ cutPrefixTo: model.snapshotEnd, hardState });
  await store.write(batch).then(
    () => model.carriedOut(batch),
    // Of its term and its cut there may be something.
    () => {
      if (batch.cutSuffixTo === null) return;
      model.keptMax = Math.max(model.keptMax, model.end);
      cutMay(model, batch.cutSuffixTo);
    },
  );
}

function cutMay(model: Model, to: number): void {
  model.entries = model.entries.filter(({ index }) => index < to);
}

async function snapshot(rng: Rng, store: RaftStore, model: Model): Promise<void> {
  const installs = rng.chance(0.3);
  const end = installs ? model.end + 1 + rng.below(5) : model.end;
  if (end <= model.snapshotEnd) return;
  const term = model.newestTerm;
  const meta = metaOf(end, installs ? term : model.lastTerm, rng.below(3000));
  let sink: SnapshotSink | undefined;
  try {
    sink = await store.beginSnapshot(meta);
    await sink.write(0, snapshotBytes(meta));
    await sink.finish();
  } catch {
    await sink?.abandon();
    return;
  }
  model.snapshotEnd = end;
  if (!installs) return;
  // the core asks for nothing else before: a start goes on from the snapshot, whether or not the log was begun anew.
  const batch = writeOf({ resetLogTo: { start: end, startTerm: term } });
  while (model.start !== end) {
    await store.write(batch).then(
      () => model.carriedOut(batch),
      () => settle(2),
    );
  }
}

async function faultsAfterCrash(files: MemoryFiles, model: Model): Promise<string[]> {
  const copy = files.image.clone();
  copy.crash(DROP_ALL);
  const again = await reopen(copy).catch((thrown: unknown) => String(thrown));
  if (typeof again === "string") return [again];
  const { log, hardState } = again.restored;
  const end = log.start + log.entries.length;
  const wanted = model.entries.filter(({ index }) => index >= log.start);
  const faults: string[] = [];
  if (end < model.end || end > Math.max(model.end, model.keptMax)) faults.push(`ends at ${end}, not ${model.end}`);
  if (String(textOf(log.entries.slice(0, wanted.length))) !== String(textOf(wanted))) faults.push("other entries");
  if (hardState.term < model.term) faults.push(`term ${hardState.term}, not ${model.term}`);
  return faults;
}

async function life(seed: number): Promise<string[]> {
  const rng = createRng(seed);
  const files = await freshFiles();
  const timers = new ManualTimers();
  let nowMs = 0;
  const deps = { ...makeDeps(files, { timers }), clock: { monoMs: () => nowMs, wallMs: () => nowMs } };
  const store = await openRaft(files, deps);
  const failed: string[] = [];
  store.onFailed((error) => failed.push(error.message));
  const model = new Model();
  await store.write(writeOf({ hardState: vote(1) }));
  const often = rng.pick([0.05, 0.15, 0.35]);
  files.delayTurns = () => 1 + rng.below(4);
  files.onOperation = (operation) => {
    const kind = passingAt(operation);
    if (kind !== undefined && rng.chance(often)) throw new FileError(kind, operation.kind, operation.path);
  };
  const faults: string[] = [];
  const look = async (where: string): Promise<void> => {
    for (const fault of await faultsAfterCrash(files, model)) faults.push(`${where}: ${fault}`);
  };
  for (let step = 0; step < STEPS; step++) {
    const dice = rng.below(10);
    if (dice < 2) await snapshot(rng, store, model);
    else if (dice < 4) await store.retainSnapshots([]).catch(() => undefined);
    else await write(rng, store, model);
    nowMs += 400;
    if (rng.chance(0.3)) await settle(2);
    if (rng.chance(0.3)) timers.fire(100);
    if (rng.chance(0.3)) await look(`step ${step}`);
  }
  if (failed.length > 0) faults.push(`the store has failed: ${failed.join()}`);
  let isClosed = false;
  void store.close().then(() => (isClosed = true));
  await settle(30);
  if (!isClosed) faults.push("close waits");
  await look("end");
  return faults;
}

/** What is asked at once, with a change of this number that fails; what waits still, and what was told. */
async function failing(seed: number, failAt: number): Promise<{ waits: string[]; codes: Set<string>; told: string[] }> {
  const rng = createRng(seed);
  const files = await freshFiles();
  const timers = new ManualTimers();
  const store = await openRaft(files, makeDeps(files, { timers }));
  const told: string[] = [];
  store.onFailed(({ code }) => told.push(code));
  for (let at = 0; at < 20; at += 5) await store.write(writeOf({ entries: entriesOf(at, at + 5, 1) }));
  let changes = 0;
  files.delayTurns = () => 1 + rng.below(10);
  files.onOperation = ({ kind, path }) => {
    if (CHANGES.has(kind) && ++changes === failAt) throw new FileError("io", kind, path);
  };
  const waiting = new Set<string>();
  const codes = new Set<string>();
  const ask = (name: string, work: () => Promise<unknown>): void => {
    waiting.add(name);
    work()
      .catch(({ code }: { code: string }) => codes.add(code))
      .finally(() => waiting.delete(name));
  };
  let end = 20;
  const acts: readonly (() => Promise<unknown>)[] = [
    () => store.write(writeOf({ entries: entriesOf(end, (end += 3), 1) })),
    () => store.write(writeOf({ hardState: vote(2) })),
    () => store.write(writeOf({ cutSuffixTo: (end = Math.min(end, 12)) })),
    () => store.writeMarks(new Map([["2:disk", { boots: 1, term: 3, end: 6 }]])),
    () => saveSnapshot(store, metaOf(10, 1, 2000)),
    () => store.retainSnapshots([]),
    () => store.readSnapshot(10, 0, 100),
  ];
  for (let count = 0; count < 12; count++) {
    const act = rng.pick(acts);
    ask(String(count), act);
    if (rng.chance(0.4)) await settle(1);
  }
  await settle(3);
  timers.fire(50);
  await settle(2);
  ask("close", () => store.close());
  for (let round = 0; round < 12 && waiting.size > 0; round++) await settle(6);
  return { waits: [...waiting], codes, told };
}

test("D-18, D-19: whatever passes, what is durable is there after a crash, and nothing that was refused", async () => {
  for (let seed = 1; seed <= 40; seed++) expect(await life(seed), `seed ${seed}`).toEqual([]);
});

test("D-13: whatever fails, all that was asked is told, the failure once to who listens, and a close ends", async () => {
  let failures = 0;
  const all: string[] = [];
  for (let seed = 1; seed <= 80; seed++) {
    const { waits, codes, told } = await failing(seed, 1 + (seed % 50));
    if (waits.length > 0) all.push(`seed ${seed}: waits ${waits.join()}`);
    if (codes.has("DISK_FAILED") && told.length !== 1) all.push(`seed ${seed}: told ${told.join()}`);
    for (const code of codes) if (code !== "DISK_FAILED") all.push(`seed ${seed}: ${code}`);
    failures += told.length;
  }
  expect(all).toEqual([]);
  expect(failures).toBeGreaterThan(30);
});
