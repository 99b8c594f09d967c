// Open files of the segments, the least recently used closed first when there are more than the bound.
import type { FileHandle, Files, OpenMode } from "../ports/files.ts";

interface Slot {
  readonly opened: Promise<FileHandle>;
  uses: number;
  isForgotten: boolean;
}

export class HandleCache {
  readonly #files: Files;
  readonly #openMax: number;
  /** In order of use, oldest first. */
  readonly #slots = new Map<string, Slot>();

  constructor(files: Files, openMax: number) {
    this.#files = files;
    this.#openMax = openMax;
  }

  get openCount(): number {
    return this.#slots.size;
  }

  /** Runs `work` with the file open; it is not closed meanwhile. `mode` counts only when it is not open yet. */
  async use<T>(path: string, mode: OpenMode, work: (handle: FileHandle) => Promise<T>): Promise<T> {
    const slot = this.#slots.get(path) ?? { opened: this.#files.open(path, mode), uses: 0, isForgotten: false };
    this.#slots.delete(path);
    this.#slots.set(path, slot);
    slot.uses++;
    try {
      this.#trim();
      return await work(await slot.opened);
    } finally {
      slot.uses--;
      await this.#release(path, slot);
    }
  }

  /** A path that is going away: its handle is closed once nobody uses it. */
  async forget(path: string): Promise<void> {
    const slot = this.#slots.get(path);
    if (slot === undefined) return;
    this.#slots.delete(path);
    slot.isForgotten = true;
    if (slot.uses === 0) await close(slot);
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

  async #release(path: string, slot: Slot): Promise<void> {
    if (slot.uses > 0) return;
    if (slot.isForgotten) return close(slot);
    // An open that failed must not be remembered.
    const isOpen = await slot.opened.then(
      () => true,
      () => false,
    );
    if (!isOpen && this.#slots.get(path) === slot) this.#slots.delete(path);
  }

  #trim(): void {
    if (this.#slots.size <= this.#openMax) return;
    for (const [path, slot] of this.#slots) {
      if (this.#slots.size <= this.#openMax) return;
      if (slot.uses > 0) continue;
      this.#slots.delete(path);
      slot.isForgotten = true;
      void close(slot);
    }
  }
}

async function close(slot: Slot): Promise<void> {
  const handle = await slot.opened.catch(() => undefined);
  await handle?.close().catch(() => undefined);
}
