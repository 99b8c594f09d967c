// The open files of the segments stay within their bound (invariant 43), however many callers there are at once.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { FileError, type FileHandle, type OpenMode } from "../../src/ports/files.ts";
import { HandleCache } from "../../src/storage/handle-cache.ts";
import { MemoryFiles } from "./memory-files.ts";
import { settle } from "./support.ts";

afterEach(() => activateMutants([]));

/** Counts the files that are open, from the call that opens one to the end of the call that closes it. */
class CountedFiles extends MemoryFiles {
  held = 0;
  most = 0;
  readonly opened: string[] = [];

  override async open(path: string, mode: OpenMode): Promise<FileHandle> {
    this.most = Math.max(this.most, ++this.held);
    this.opened.push(path);
    try {
      const handle = await super.open(path, mode);
      const close = handle.close.bind(handle);
      handle.close = async () => {
        await close();
        this.held--;
      };
      return handle;
    } catch (thrown) {
      this.held--;
      throw thrown;
    }
  }
}

/** Callers that hold their file until they are told. */
class Callers {
  readonly #ends = new Map<string, () => void>();
  readonly done: string[] = [];
  readonly refused = new Map<string, unknown>();
  readonly #cache: HandleCache;

  constructor(cache: HandleCache) {
    this.#cache = cache;
  }

  get holding(): string[] {
    return [...this.#ends.keys()];
  }

  start(path: string, mode: OpenMode = "open-or-create"): void {
    const work = (): Promise<void> => new Promise((resolve) => this.#ends.set(path, resolve));
    void this.#cache.use(path, mode, work).then(
      () => this.done.push(path),
      (thrown: unknown) => this.refused.set(path, thrown),
    );
  }

  async end(path: string): Promise<void> {
    const end = this.#ends.get(path);
    if (end === undefined) throw new Error(`${path} is not held`);
    this.#ends.delete(path);
    end();
    await settle();
  }
}

function made(openMax: number) {
  const files = new CountedFiles();
  const cache = new HandleCache(files, openMax);
  return { files, cache, callers: new Callers(cache) };
}

/** More callers than places, each of a file of its own. */
async function crowded() {
  const all = made(2);
  for (const path of ["/a", "/b", "/c", "/d"]) all.callers.start(path);
  await settle();
  return all;
}

describe("the bound of open files", () => {
  test("who finds all places in use waits, in turn, and gets the place of the first that ends", async () => {
    const { files, cache, callers } = await crowded();
    expect(callers.holding).toEqual(["/a", "/b"]);
    expect(cache.openCount).toBe(2);
    await callers.end("/b");
    expect(callers.holding).toEqual(["/a", "/c"]);
    await callers.end("/a");
    expect(callers.holding).toEqual(["/c", "/d"]);
    await callers.end("/c");
    await callers.end("/d");
    expect(callers.done).toEqual(["/b", "/a", "/c", "/d"]);
    expect(files.most).toBe(2);
    expect(cache.openCount).toBe(2);
  });

  test("the planted bug I43h opens them all", async () => {
    activateMutants(["I43h"]);
    const { files, cache, callers } = await crowded();
    expect(callers.holding).toEqual(["/a", "/b", "/c", "/d"]);
    expect([files.most, cache.openCount]).toEqual([4, 4]);
  });

  test("the least recently used is closed first, and those in use are not", async () => {
    const { files, cache, callers } = made(3);
    callers.start("/used");
    await settle();
    for (const path of ["/old", "/new", "/old", "/next"])
      await cache.use(path, "open-or-create", (file) => file.size());
    expect(files.opened).toEqual(["/used", "/old", "/new", "/next"]);
    await cache.use("/old", "write", (file) => file.size());
    await callers.end("/used");
    expect(files.opened).toEqual(["/used", "/old", "/new", "/next"]);
    expect([files.most, cache.openCount]).toEqual([3, 3]);
  });

  test("a place is free only when its file is closed", async () => {
    const { files, cache, callers } = made(1);
    let isHeld = true;
    const turns = (): number => (isHeld ? 200 : 1);
    await cache.use("/a", "open-or-create", (file) => file.size());
    files.delayTurns = turns;
    callers.start("/b");
    for (let turn = 0; turn < 20; turn++) await undefined;
    expect([files.opened, cache.openCount]).toEqual([["/a"], 1]);
    isHeld = false;
    await settle();
    await settle();
    expect(callers.holding).toEqual(["/b"]);
    expect(files.most).toBe(1);
  });

  test("a file that cannot be opened keeps no place", async () => {
    const { cache, callers } = made(1);
    callers.start("/missing", "write");
    callers.start("/missing-too", "write");
    callers.start("/a");
    await settle();
    expect([...callers.refused.keys()]).toEqual(["/missing", "/missing-too"]);
    expect(callers.holding).toEqual(["/a"]);
    expect(cache.openCount).toBe(1);
  });

  test("a forgotten file that is in use counts until it is closed", async () => {
    const { files, cache, callers } = made(1);
    callers.start("/a");
    await settle();
    await cache.forget("/a");
    callers.start("/b");
    await settle();
    expect([callers.holding, cache.openCount]).toEqual([["/a"], 1]);
    await callers.end("/a");
    expect(callers.holding).toEqual(["/b"]);
    expect(files.most).toBe(1);
  });

  test("who waits for a file that is going away never opens it, and no damage is concluded from that", async () => {
    const { files, cache, callers } = await crowded();
    await cache.forget("/c");
    await settle();
    const refusal = callers.refused.get("/c");
    expect(refusal).toBeInstanceOf(FileError);
    expect(refusal).toMatchObject({ kind: "too-many-open" });
    await callers.end("/a");
    expect(callers.holding).toEqual(["/b", "/d"]);
    expect(files.opened).toEqual(["/a", "/b", "/d"]);
  });

  test("when all are closed, those that wait are refused and those in use end", async () => {
    const { files, cache, callers } = await crowded();
    await cache.closeAll();
    await settle();
    expect([...callers.refused.keys()]).toEqual(["/c", "/d"]);
    await callers.end("/a");
    await callers.end("/b");
    expect([callers.done, files.held, cache.openCount]).toEqual([["/a", "/b"], 0, 0]);
  });
});
