// A start whose disk fails once, at any of its operations: it is refused or it succeeds, no log is taken for damaged, and a refused one leaves no file
// open.
import { expect, test } from "vitest";
import { OttlaError } from "../../src/model/errors.ts";
import type { Offset } from "../../src/model/ids.ts";
import { FileError, type FileErrorKind } from "../../src/ports/files.ts";
import { DiskImage } from "../../src/sim/disk-image.ts";
import type { LogStoreImpl } from "../../src/storage/store.ts";
import { MemoryFiles, type Operation } from "./memory-files.ts";
import { appendBatch, contentOf, openStore, settle, specOf } from "./support.ts";

const CONFIG = { segmentBytes: 600, indexIntervalBytes: 100, openFilesMax: 3 };
const PRODUCER = { producerId: 5, producerEpoch: 0, baseSequence: 0 };

async function contents(store: LogStoreImpl): Promise<string[]> {
  const found: string[] = [];
  for (const log of store.logs) found.push((await contentOf(log)).map(String).join());
  return found;
}

function openFiles(image: DiskImage): string[] {
  return image.filesBelow("/data").flatMap(({ path }) => {
    const node = image.find(path);
    return node?.kind === "file" && node.openCount > 0 ? path : [];
  });
}

/** What a killed process leaves: segments with indexes, and a journal that appends, cuts below the checkpoint and deletes. */
async function killed(): Promise<{ readonly image: DiskImage; readonly expected: readonly string[] }> {
  const files = new MemoryFiles();
  const store = await openStore(files, CONFIG);
  const [first, second, third] = [
    await store.createLog(specOf("a", 0, 1)),
    await store.createLog(specOf("b", 0, 2)),
    await store.createLog(specOf("c", 0, 3)),
  ];
  for (const log of [first, second, third]) for (let count = 0; count < 12; count++) appendBatch(log);
  await settle();
  await store.checkpoint();
  for (const log of [first, second]) for (let count = 0; count < 4; count++) appendBatch(log, { fill: 100 });
  appendBatch(first, { producer: PRODUCER });
  await second.truncate(8 as Offset);
  appendBatch(second, { fill: 200 });
  await store.deleteLog(third);
  await settle();
  const expected = await contents(store);
  files.kill();
  files.image.closeAll();
  return { image: files.image, expected };
}

const STARTS = {
  start: killed,
  "first start": async () => ({ image: new DiskImage(), expected: [] }),
} as const;

const FAULTS: readonly { readonly kind: FileErrorKind; readonly at: readonly string[]; readonly code: string }[] = [
  { kind: "too-many-open", at: ["open", "list"], code: "STORAGE_ERROR" },
  { kind: "io", at: ["write", "truncate", "datasync", "syncDirectory"], code: "DISK_FAILED" },
];

const CASES = Object.entries(STARTS).flatMap(([name, prepare]) => FAULTS.map((fault) => ({ ...fault, name, prepare })));

for (const { name, prepare, kind, at, code } of CASES) {
  test(`D-18: ${kind} at any operation of a ${name} damages no log, and what is refused leaves no file open`, async () => {
    const { image, expected } = await prepare();
    const undisturbed = new MemoryFiles(image.clone());
    await openStore(undisturbed, CONFIG);
    const { operations } = undisturbed;
    let refused = 0;
    for (let number = 1; number <= operations; number++) {
      const files = new MemoryFiles(image.clone());
      let met: Operation | undefined;
      files.onOperation = (operation) => {
        // The reserve is made when the store is open already.
        if (operation.number !== number || !at.includes(operation.kind) || operation.path.endsWith("/reserve")) return;
        met = operation;
        throw new FileError(kind, operation.kind, operation.path);
      };
      const store = await openStore(files, CONFIG).catch((thrown: unknown) => thrown as OttlaError);
      if (met === undefined) continue;
      const where = `${met.kind} ${met.path}`;
      if (store instanceof OttlaError) {
        refused++;
        expect(store.code, where).toBe(code);
        await settle(2);
        expect(openFiles(files.image), where).toEqual([]);
      } else expect(await contents(store), where).toEqual(expected);
    }
    expect(refused).toBeGreaterThan(5);
  });
}
