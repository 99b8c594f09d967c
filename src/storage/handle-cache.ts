// Open files of the segments, never more than the bound: the least recently used one is closed for the next, and while all are in use
// the next one waits.
import { mutant } from "../base/mutant.ts";
import { FileError, type FileHandle, type Files, type OpenMode } from "../ports/files.ts";

interface Slot {
  readonly opened: Promise<FileHandle>;
  uses: number;
  isForgotten: boolean;
}

interface Waiting {
  readonly admit: () => void;
  readonly refuse: (reason: FileError) => void;
}

export class HandleCache {
  readonly #files: Files;
  readonly #openMax: number;
  /** In order of use, oldest first. A slot that waits for its place is here too, in use. */
  readonly #slots = new Map<string, Slot>();
  /** By path, first come, first served. As many as there are callers at once: those bound it. */
  readonly #waiting = new Map<string, Waiting>();
  /** Files being opened, open or being closed; those that are forgotten and still in use count too. */
  #places = 0;
  #closing = 0;

  constructor(files: Files, openMax: number) {
    this.#files = files;
    this.#openMax = openMax;
  }

  get openCount(): number {
    return this.#places;
  }

  /**
   * Runs `work` with the file open; it is not closed meanwhile. `mode` counts only when it is not open yet. `work` must not use the cache
   * itself: those that hold all places would wait for each other.
   */
  async use<T>(path: string, mode: OpenMode, work: (handle: FileHandle) => Promise<T>): Promise<T> {
    const slot = this.#slots.get(path) ?? { opened: this.#open(path, mode), uses: 0, isForgotten: false };
    this.#slots.delete(path);
    this.#slots.set(path, slot);
    slot.uses++;
    try {
      return await work(await slot.opened);
    } finally {
      slot.uses--;
      await this.#release(path, slot);
    }
  }

  /** A path that is going away: its handle is closed once nobody uses it. Whoever waits to open it is refused: it may be another's soon. */
  async forget(path: string): Promise<void> {
    const slot = this.#slots.get(path);
    if (slot === undefined) return;
    this.#slots.delete(path);
    slot.isForgotten = true;
    const waiting = this.#waiting.get(path);
    this.#waiting.delete(path);
    // Not "not-found": that would be damage of the log.
    waiting?.refuse(new FileError("too-many-open", "open", path));
    if (slot.uses === 0) await this.#close(slot);
  }

  /**
   * As `forget`, for all paths below a directory. Whoever takes a name away (rename, unlink) forgets behind it: a handle that was opened
   * before is one of the file that had the name, and what a later owner of the name writes by it is gone (D-14).
   */
  async forgetBelow(directory: string): Promise<void> {
    const paths = [...this.#slots.keys()].filter((path) => path.startsWith(`${directory}/`));
    await Promise.all(paths.map((path) => this.forget(path)));
  }

  async closeAll(): Promise<void> {
    for (const path of [...this.#slots.keys()]) await this.forget(path);
  }

  async #open(path: string, mode: OpenMode): Promise<FileHandle> {
    if (this.#places < this.#openMax || mutant("I43h")) this.#places++;
    else await this.#place(path);
    try {
      return await this.#files.open(path, mode);
    } catch (thrown) {
      this.#places--;
      this.#serve();
      throw thrown;
    }
  }

  #place(path: string): Promise<void> {
    return new Promise((admit, refuse) => {
      this.#waiting.set(path, { admit, refuse });
      this.#serve();
    });
  }

  async #release(path: string, slot: Slot): Promise<void> {
    if (slot.uses > 0) return;
    if (slot.isForgotten) return this.#close(slot);
    // An open that failed must not be remembered.
    const isOpen = await slot.opened.then(
      () => true,
      () => false,
    );
    if (!isOpen && this.#slots.get(path) === slot) this.#slots.delete(path);
    this.#serve();
  }

  /** Gives free places to those that wait, and closes one file that nobody uses for each of the others. */
  #serve(): void {
    for (const [path, waiting] of this.#waiting) {
      if (this.#places >= this.#openMax) break;
      this.#waiting.delete(path);
      this.#places++;
      waiting.admit();
    }
    if (this.#waiting.size <= this.#closing) return;
    for (const [path, slot] of this.#slots) {
      if (this.#waiting.size <= this.#closing) return;
      if (slot.uses > 0) continue;
      this.#slots.delete(path);
      slot.isForgotten = true;
      void this.#close(slot);
    }
  }

  /** Frees the place of a slot that nobody uses; one that could not be opened has none any more. */
  async #close(slot: Slot): Promise<void> {
    this.#closing++;
    const handle = await slot.opened.catch(() => undefined);
    if (handle !== undefined) {
      await handle.close().catch(() => undefined);
      this.#places--;
    }
    this.#closing--;
    this.#serve();
  }
}
