// Each planted bug of the metadata store has a directed schedule that holds without it and breaks with it.
import { afterEach, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { FileError } from "../../src/ports/files.ts";
import { type CrashChoices, DROP_ALL, KEEP_ALL } from "../../src/sim/disk-image.ts";
import type { RestoredRaft } from "../../src/storage/raft-types.ts";
import type { MemoryFiles } from "./memory-files.ts";
import { append, entriesOf, freshFiles, openRaft, reopen, textOf, vote, writeOf } from "./raft-support.ts";
import { settle } from "./support.ts";

afterEach(() => activateMutants([]));

/** What the next process finds after a power loss; undefined: it refuses to start. */
async function after(files: MemoryFiles, choices: CrashChoices): Promise<RestoredRaft | undefined> {
  files.kill();
  files.image.crash(choices);
  return reopen(files.image).then(
    (store) => store.restored,
    () => undefined,
  );
}

/** Entries [0, 10) of term 1, each synced by itself, over three files. */
async function grown() {
  const files = await freshFiles();
  const store = await openRaft(files);
  for (const entry of entriesOf(0, 10, 1)) await append(store, [entry]);
  return { files, store };
}

const conflicting = writeOf({ hardState: vote(2), cutSuffixTo: 2, entries: entriesOf(2, 3, 2) });
const CUT = textOf([...entriesOf(0, 2, 1), ...entriesOf(2, 3, 2)]);

/** Each says whether what was promised held. */
const schedules: Record<string, readonly (() => Promise<boolean>)[]> = {
  "D-19": [
    // The write has resolved: what it cut must not come back.
    async () => {
      const { files, store } = await grown();
      await store.write(conflicting);
      const restored = await after(files, DROP_ALL);
      return restored !== undefined && textOf(restored.log.entries).join() === CUT.join();
    },
    // Power fails before the sync of the new entry: its bytes are on the disk, the cut is not.
    async () => {
      const { files, store } = await grown();
      let writes = 0;
      files.onOperation = ({ kind, path }) => {
        if (kind === "write" && path.endsWith(".log")) writes++;
        if (kind === "datasync" && path.endsWith(".log") && writes > 0) files.kill();
      };
      void store.write(conflicting);
      await settle();
      const restored = await after(files, { ...KEEP_ALL, ofTruncate: () => false });
      return restored !== undefined && restored.log.entries.every(({ index, term }) => (index < 2 ? 1 : 2) === term);
    },
  ],
  "Q-1": [
    async () => {
      const { files, store } = await grown();
      await store.write(writeOf({ hardState: vote(5, "2:disk") }));
      const restored = await after(files, DROP_ALL);
      return restored?.hardState.term === 5 && restored.hardState.votedFor === "2:disk";
    },
  ],
  "D-13q": [
    async () => {
      const { files, store } = await grown();
      files.onOperation = ({ kind, path }) => {
        if (kind !== "datasync" || !path.endsWith(".log")) return;
        const node = files.image.find(path);
        if (node?.kind === "file") files.image.failSync(node, DROP_ALL);
        throw new FileError("io", kind, path);
      };
      await append(store, entriesOf(10, 11, 1)).catch(() => undefined);
      files.kill();
      files.image.closeAll();
      // The page cache still shows the entry: the next process takes it, and from then on it is durable.
      const found = await reopen(files.image);
      const restored = await after(files, DROP_ALL);
      return restored !== undefined && restored.log.entries.length === found.restored.log.entries.length;
    },
  ],
};

for (const [id, all] of Object.entries(schedules)) {
  for (const [place, schedule] of all.entries()) {
    test(`${id}: directed schedule ${place + 1} holds, and breaks with the planted bug`, async () => {
      expect(await schedule()).toBe(true);
      activateMutants([id]);
      expect(await schedule()).toBe(false);
    });
  }
}
