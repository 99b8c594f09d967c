// The log against an in-memory array: append, read at any place and size, find by time, truncate, checkpoint, restart.
import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes } from "../../src/base/bytes.ts";
import type { Offset } from "../../src/model/ids.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import type { ReplicaLog } from "../../src/storage/types.ts";
import { MemoryFiles } from "./memory-files.ts";
import { appendBatch, appendRun, openStore, Recorder, specOf } from "./support.ts";

type Action =
  | { readonly kind: "append" | "run"; readonly count: number; readonly valueBytes: number; readonly time: number }
  | {
      readonly kind: "read";
      readonly at: number;
      readonly upTo: number;
      readonly maxBytes: number;
      readonly atLeastOne: boolean;
    }
  | { readonly kind: "find"; readonly time: number; readonly upTo: number }
  | { readonly kind: "truncate"; readonly at: number }
  | { readonly kind: "durable" | "checkpoint" | "restart" };

const fraction = fc.double({ min: 0, max: 1, noNaN: true });
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constantFrom("append" as const, "run" as const),
      count: fc.integer({ min: 1, max: 5 }),
      valueBytes: fc.integer({ min: 0, max: 150 }),
      time: fc.integer({ min: 0, max: 1000 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("read" as const),
      at: fraction,
      upTo: fraction,
      maxBytes: fc.integer({ min: 0, max: 3000 }),
      atLeastOne: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("find" as const),
      time: fc.integer({ min: 0, max: 1000 }),
      upTo: fraction,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("truncate" as const), at: fraction }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom("durable" as const, "checkpoint" as const, "restart" as const) }),
  },
);

interface Entry {
  readonly bytes: Uint8Array;
  readonly base: number;
  readonly end: number;
  readonly time: number;
}

class Twin {
  readonly files = new MemoryFiles();
  readonly config: { readonly tailCacheBytes: number; readonly openFilesMax: number };
  entries: Entry[] = [];
  store: LogStoreImpl | undefined;
  log: ReplicaLog | undefined;
  recorder = new Recorder();

  constructor(tailCacheBytes: number) {
    this.config = { tailCacheBytes, openFilesMax: 2 };
  }

  async open(): Promise<ReplicaLog> {
    this.store = await openStore(this.files, this.config);
    this.recorder = new Recorder();
    this.store.listen(this.recorder);
    this.log = await this.store.createLog(specOf("a"));
    return this.log;
  }

  get end(): number {
    return this.entries.at(-1)?.end ?? 0;
  }

  /** What a read must give, if it gives all it may. */
  expected(offset: number, options: { limit: number; maxBytes: number; atLeastOne: boolean }): Entry[] {
    const found: Entry[] = [];
    let sizeBytes = 0;
    for (const entry of this.entries) {
      if (entry.end <= offset) continue;
      if (entry.end > options.limit || offset >= options.limit) break;
      if (sizeBytes + entry.bytes.length > options.maxBytes && (found.length > 0 || !options.atLeastOne)) break;
      found.push(entry);
      sizeBytes += entry.bytes.length;
    }
    return found;
  }
}

async function act(twin: Twin, log: ReplicaLog, step: Action): Promise<void> {
  switch (step.kind) {
    case "append": {
      const base = log.endOffset;
      const bytes = appendBatch(log, { count: step.count, valueBytes: step.valueBytes, timestamp: step.time });
      twin.entries.push({ bytes, base, end: base + step.count, time: step.time });
      return;
    }
    case "run": {
      const base = log.endOffset;
      const runs = appendRun(log, step.count * 3, { valueBytes: step.valueBytes, timestamp: step.time });
      for (const [place, bytes] of runs.entries())
        twin.entries.push({ bytes, base: base + place, end: base + place + 1, time: step.time });
      return;
    }
    case "read": {
      const offset = Math.floor(step.at * twin.end);
      const limit = Math.floor(step.upTo * twin.end + 0.5);
      const options = { limitOffset: limit as Offset, maxBytes: step.maxBytes, atLeastOne: step.atLeastOne };
      const result = await log.read(offset as Offset, options);
      const expected = twin.expected(offset, { ...options, limit });
      const given = concatBytes(result.chunks);
      expect(result.sizeBytes).toBe(given.length);
      const count = expected.findIndex((entry) => entry.end === result.nextOffset) + 1;
      expect(given).toEqual(concatBytes(expected.slice(0, count).map((entry) => entry.bytes)));
      if (expected.length > 0) expect(count).toBeGreaterThan(0);
      else expect(result.nextOffset).toBe(offset);
      return;
    }
    case "find": {
      const limit = Math.floor(step.upTo * twin.end);
      const found = await log.findTimestamp(step.time, limit as Offset);
      const entry = twin.entries.find((each) => each.time + (each.end - each.base) - 1 >= step.time);
      const offset = entry === undefined ? undefined : entry.base + Math.max(0, step.time - entry.time);
      expect(found?.offset).toBe(offset !== undefined && offset < limit ? offset : undefined);
      return;
    }
    case "truncate": {
      const to = twin.entries[Math.floor(step.at * twin.entries.length)]?.base;
      if (to === undefined) return;
      await log.truncate(to as Offset);
      twin.entries = twin.entries.filter((entry) => entry.base < to);
      return;
    }
    case "durable":
      return twin.recorder.until(() => log.durableEnd === log.endOffset);
    case "checkpoint":
      return twin.store?.checkpoint();
    case "restart":
      await twin.recorder.until(() => log.durableEnd === log.endOffset);
      await twin.store?.close();
      await twin.open();
  }
}

test("the log gives what was put in, whatever is asked and whenever it restarts", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { minLength: 1, maxLength: 60 }),
      fc.constantFrom(0, 1000, 1 << 20),
      async (actions, tailCacheBytes) => {
        const twin = new Twin(tailCacheBytes);
        await twin.open();
        for (const step of actions) await act(twin, twin.log as ReplicaLog, step);
        await twin.store?.close();
      },
    ),
    { numRuns: 150, seed: 7 },
  );
});
