// D-16, D-17: whatever rots in a segment is found by the next pass of the scrub, whoever reads it or not.
import { expect, test } from "vitest";
import type { Offset } from "../../src/model/ids.ts";
import type { Timers } from "../../src/ports/timers.ts";
import type { ReplicaLogImpl } from "../../src/storage/replica-log.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, contentOf, makeDeps, openStore, Recorder, settle, specOf } from "./support.ts";

const BATCHES = 120;
const PERIOD_MS = 1000;

/** Time that moves when the test says so. */
class SteppedTimers implements Timers {
  nowMs = 0;
  readonly #pending = new Set<{ readonly dueMs: number; readonly callback: () => void }>();

  after(delayMs: number, callback: () => void): { cancel(): void } {
    const timer = { dueMs: this.nowMs + delayMs, callback };
    this.#pending.add(timer);
    return { cancel: () => this.#pending.delete(timer) };
  }

  defer(callback: () => void): void {
    setImmediate(callback);
  }

  async advance(toMs: number): Promise<void> {
    for (;;) {
      await settle(8);
      const next = [...this.#pending].toSorted((left, right) => left.dueMs - right.dueMs)[0];
      if (next === undefined || next.dueMs > toMs) break;
      this.#pending.delete(next);
      this.nowMs = next.dueMs;
      next.callback();
    }
    this.nowMs = toMs;
  }
}

async function withLogs(bytesPerSecond = 1e9) {
  const files = new MemoryFiles();
  const timers = new SteppedTimers();
  const counted = new Map<string, number>();
  const deps = {
    ...makeDeps(files, { timers }),
    clock: { monoMs: () => timers.nowMs, wallMs: () => 1_700_000_000_000 },
    metrics: {
      counter: (name: string) => ({ add: (count: number) => void counted.set(name, (counted.get(name) ?? 0) + count) }),
      gauge: () => ({ set: () => undefined }),
      histogram: () => ({ observe: () => undefined }),
    },
  };
  const maintenance = {
    cleanerBackoffMs: 1e9,
    cleanerDedupeBytes: 1e6,
    cleanerBytesPerSecond: 1e6,
    scrubPeriodMs: PERIOD_MS,
    scrubBytesPerSecond: bytesPerSecond,
  };
  const store = await openStore(files, { maintenance, checkpointIntervalMs: 1e9 }, deps);
  const recorder = new Recorder();
  store.listen(recorder);
  const log = (await store.createLog(specOf("a", 0, 1))) as ReplicaLogImpl;
  const other = (await store.createLog(specOf("b", 0, 2))) as ReplicaLogImpl;
  const batches = Array.from({ length: BATCHES }, () => appendBatch(log));
  Array.from({ length: BATCHES }, () => appendBatch(other, { fill: 50 }));
  await recorder.until(() => log.durableEnd === BATCHES && other.durableEnd === BATCHES);
  log.noteHighWatermark(BATCHES as Offset);
  await store.checkpoint();
  return { files, timers, store, recorder, log, other, batches, counted };
}

type Ground = Awaited<ReturnType<typeof withLogs>>;
const pathOf = ({ log }: Ground, place: number): string => `${log.segments.all.at(place)?.path}`;
const sizeOf = ({ log }: Ground, place: number): number => log.segments.all.at(place)?.sizeBytes ?? 0;

/** Each of these is done to a closed segment that nobody reads. */
const faults: Record<string, (ground: Ground) => void> = {
  "a flipped bit in a record": (ground) => ground.files.image.flipBit(`${pathOf(ground, 1)}.log`, 95, 2),
  "a flipped bit in an epoch": (ground) => ground.files.image.flipBit(`${pathOf(ground, 1)}.log`, 15, 0),
  "a page of zeros": (ground) => ground.files.image.corrupt(`${pathOf(ground, 1)}.log`, 512, new Uint8Array(512)),
  "a file that is too short": (ground) => ground.files.image.cutOff(`${pathOf(ground, 1)}.log`, sizeOf(ground, 1) - 1),
  "an empty file": (ground) => ground.files.image.cutOff(`${pathOf(ground, 1)}.log`, 0),
  "a missing file": (ground) => void expect(ground.files.image.vanish(`${pathOf(ground, 1)}.log`)).toBe(true),
  "a misdirected write": (ground) => {
    const node = ground.files.image.find(`${ground.other.segments.all[1]?.path}.log`);
    const bytes = node?.kind === "file" ? node.live.view.slice(0, node.live.sizeBytes) : new Uint8Array();
    ground.files.image.corrupt(`${pathOf(ground, 1)}.log`, 0, bytes);
  },
};

for (const [what, spoil] of Object.entries(faults)) {
  test(`D-17: ${what} is found within a period, and can be repaired`, async () => {
    const ground = await withLogs();
    const { timers, recorder, log, other, store } = ground;
    await timers.advance(1.5 * PERIOD_MS);
    expect([log.damage, other.damage]).toEqual([undefined, undefined]);
    spoil(ground);
    const before = recorder.events.filter((event) => event.startsWith("damaged"));
    await timers.advance(timers.nowMs + 1.1 * PERIOD_MS);
    expect(before).toEqual([]);
    expect(recorder.events.filter((event) => event.startsWith("damaged"))).toEqual(["damaged a-0"]);
    expect(log.damage?.fromOffset).toBe(log.segments.all[1]?.base);
    expect(log.beginRepair()?.nextOffset).toBe(log.segments.all[1]?.base);
    expect(recorder.failure).toBeUndefined();
    await store.close();
  });
}

test("D-16: a pass over logs that are being written, cut and dropped finds nothing, and reads everything", async () => {
  const ground = await withLogs();
  const { timers, recorder, log, other, counted } = ground;
  for (let turn = 0; turn < 30; turn++) {
    await timers.advance(timers.nowMs + 97);
    const base = log.endOffset;
    if (turn % 7 === 3) await log.truncate((base - 3) as Offset);
    else appendBatch(log, { epoch: turn });
    if (turn === 20) await other.advanceStart(60 as Offset);
    await recorder.until(() => log.durableEnd === log.endOffset);
  }
  expect([log.damage, other.damage]).toEqual([undefined, undefined]);
  const passes = counted.get("scrub_passes_total") ?? 0;
  expect(passes).toBeGreaterThanOrEqual(2);
  expect(counted.get("scrubbed_bytes_total")).toBeGreaterThan(passes * other.segments.sizeBytes);
});

test("T12: the scrub reads no faster than it may, and is done with a pass all the same", async () => {
  const bytesPerSecond = 8000;
  const { timers, counted, log, other } = await withLogs(bytesPerSecond);
  const totalBytes = log.segments.sizeBytes + other.segments.sizeBytes;
  const passMs = (totalBytes * 1000) / bytesPerSecond;
  expect(passMs).toBeGreaterThan(PERIOD_MS);
  for (let nowMs = 200; nowMs < passMs + 1000; nowMs += 200) {
    await timers.advance(nowMs);
    // One piece, a small segment here, is read before it is waited for.
    expect(counted.get("scrubbed_bytes_total") ?? 0).toBeLessThanOrEqual((nowMs * bytesPerSecond) / 1000 + 4096);
  }
  expect(counted.get("scrub_passes_total")).toBe(1);
});

test("D-16: a sidecar or an index that is gone is written again behind a pass, by the next checkpoint", async () => {
  const ground = await withLogs();
  const { files, timers, store, log, batches } = ground;
  const closed = pathOf(ground, 1);
  await store.checkpoint();
  await store.checkpoint();
  const had = [".ident", ".index", ".timeindex"].map((suffix) => {
    const node = files.image.find(closed + suffix);
    return [suffix, node?.kind === "file" ? [...node.live.view.slice(0, node.live.sizeBytes)] : undefined];
  });
  expect(had.every(([, bytes]) => bytes !== undefined)).toBe(true);
  for (const [suffix] of had) expect(files.image.vanish(`${closed}${String(suffix)}`)).toBe(true);
  await timers.advance(timers.nowMs + 2.2 * PERIOD_MS);
  await store.checkpoint();
  const has = had.map(([suffix]) => {
    const node = files.image.find(closed + String(suffix));
    return [suffix, node?.kind === "file" ? [...node.live.view.slice(0, node.live.sizeBytes)] : undefined];
  });
  expect(has).toEqual(had);
  expect(log.damage).toBeUndefined();
  expect(await contentOf(log)).toEqual(batches);
});

test("S-15: indexes that rotted, or are gone, are made anew by the next pass, also those that nobody has in memory", async () => {
  const ground = await withLogs();
  const { files, timers, recorder, log, store } = ground;
  const contents = (): Map<string, Uint8Array | undefined> =>
    new Map(
      log.segments.all.flatMap(({ path }) =>
        [`${path}.index`, `${path}.timeindex`].map((name) => {
          const node = files.image.find(name);
          return [name, node?.kind === "file" ? node.live.view.slice(0, node.live.sizeBytes) : undefined] as const;
        }),
      ),
    );
  // Twice: what nobody has used since the last checkpoint leaves memory.
  for (let turn = 0; turn < 3; turn++) {
    appendBatch(log);
    await recorder.until(() => log.durableEnd === log.endOffset);
    await store.checkpoint();
  }
  expect(log.segments.all[0]?.index).toBeUndefined();
  const before = contents();
  files.image.flipBit(`${pathOf(ground, 0)}.timeindex`, 3, 1);
  files.image.vanish(`${pathOf(ground, 1)}.index`);
  files.image.cutOff(`${pathOf(ground, 2)}.index`, 8);
  files.image.flipBit(`${pathOf(ground, -1)}.index`, 0, 0);
  expect(contents()).not.toEqual(before);
  await timers.advance(2.5 * PERIOD_MS);
  await store.checkpoint();
  expect(contents()).toEqual(before);
  expect(log.damage).toBeUndefined();
  await store.close();
});
