// A node's timers, files and connections, each bound to one life of it.
import type { FileHandle, Files, LockOutcome } from "../ports/files.ts";
import type { TimerHandle, Timers } from "../ports/timers.ts";
import type { ConnectionHandlers, Listener, MessageConnection, MessageTransport } from "../ports/transport.ts";
import type { Life } from "./life.ts";

/** A timer that comes due during a pause fires at its end. */
export function heldTimers(life: Life, timers: Timers): Timers {
  return {
    after(delayMs: number, callback: () => void): TimerHandle {
      if (life.isEnded) return { cancel: () => undefined };
      let isCancelled = false;
      const timer = timers.after(delayMs, () => {
        forget();
        life.run(() => {
          if (!isCancelled) callback();
        });
      });
      const forget = life.atEnd(() => timer.cancel());
      return {
        cancel() {
          isCancelled = true;
          forget();
          timer.cancel();
        },
      };
    },
    defer: (callback) => timers.defer(() => life.run(callback)),
  };
}

/** Files as one process has them open: its end closes them and lets its locks go, once what was under way is done. */
export class HeldFiles implements Files {
  readonly #life: Life;
  readonly #files: Files;
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #open = new Set<FileHandle>();
  readonly #locks = new Set<() => Promise<void>>();

  constructor(life: Life, files: Files) {
    this.#life = life;
    this.#files = files;
  }

  async open(...[path, mode]: Parameters<Files["open"]>): Promise<FileHandle> {
    const handle = await this.call(async () => {
      const opened = await this.#files.open(path, mode);
      this.#open.add(opened);
      return opened;
    });
    return new HeldFileHandle(this, handle);
  }

  rename(from: string, to: string): Promise<void> {
    return this.call(() => this.#files.rename(from, to));
  }

  unlink(path: string): Promise<void> {
    return this.call(() => this.#files.unlink(path));
  }

  makeDirectory(path: string): Promise<void> {
    return this.call(() => this.#files.makeDirectory(path));
  }

  removeDirectory(path: string): Promise<void> {
    return this.call(() => this.#files.removeDirectory(path));
  }

  list(path: string): ReturnType<Files["list"]> {
    return this.call(() => this.#files.list(path));
  }

  syncDirectory(path: string): Promise<void> {
    return this.call(() => this.#files.syncDirectory(path));
  }

  freeBytes(path: string): Promise<number> {
    return this.call(() => this.#files.freeBytes(path));
  }

  async lockDirectory(path: string): Promise<LockOutcome> {
    const outcome = await this.call(async () => {
      const taken = await this.#files.lockDirectory(path);
      if (taken.kind === "acquired") this.#locks.add(taken.release);
      return taken;
    });
    if (outcome.kind === "held") return outcome;
    const { release } = outcome;
    return {
      kind: "acquired",
      release: () =>
        this.call(async () => {
          this.#locks.delete(release);
          await release();
        }),
    };
  }

  /** For the handles, too. */
  call<T>(start: () => Promise<T>): Promise<T> {
    return this.#life.call(() => {
      const work = start();
      this.#underWay.add(work);
      const end = () => void this.#underWay.delete(work);
      work.then(end, end);
      return work;
    });
  }

  async closeHandle(handle: FileHandle): Promise<void> {
    this.#open.delete(handle);
    await handle.close();
  }

  /** After the life has ended: nothing of it touches the disk any more when this resolves. */
  async letGo(): Promise<void> {
    await Promise.allSettled(this.#underWay);
    await Promise.allSettled([...this.#open].map((handle) => handle.close()));
    await Promise.allSettled([...this.#locks].map((release) => release()));
    this.#open.clear();
    this.#locks.clear();
  }
}

class HeldFileHandle implements FileHandle {
  readonly path: string;
  readonly #files: HeldFiles;
  readonly #handle: FileHandle;

  constructor(files: HeldFiles, handle: FileHandle) {
    this.#files = files;
    this.#handle = handle;
    this.path = handle.path;
  }

  read(position: number, target: Uint8Array): Promise<number> {
    return this.#files.call(() => this.#handle.read(position, target));
  }

  write(position: number, chunks: readonly Uint8Array[]): Promise<void> {
    return this.#files.call(() => this.#handle.write(position, chunks));
  }

  datasync(): Promise<void> {
    return this.#files.call(() => this.#handle.datasync());
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#files.call(() => this.#handle.truncate(sizeBytes));
  }

  size(): Promise<number> {
    return this.#files.call(() => this.#handle.size());
  }

  close(): Promise<void> {
    return this.#files.call(() => this.#files.closeHandle(this.#handle));
  }
}

/** Connections as one process has them open: its end cuts them, and nobody listens on its port any more. */
export function heldTransport(life: Life, transport: MessageTransport): MessageTransport {
  return {
    async listen(address: string, onConnection: (connection: MessageConnection) => void): Promise<Listener> {
      const listener = await life.call(
        () =>
          transport.listen(address, (connection) => {
            const held = new HeldConnection(life, connection);
            life.run(() => onConnection(held));
          }),
        (late) => void late.close(),
      );
      life.atEnd(() => void listener.close());
      return listener;
    },
    async connect(address: string): Promise<MessageConnection> {
      const connection = await life.call(
        () => transport.connect(address),
        (late) => late.destroy(),
      );
      return new HeldConnection(life, connection);
    },
  };
}

class HeldConnection implements MessageConnection {
  readonly #life: Life;
  readonly #connection: MessageConnection;
  readonly #endWatching: () => void;
  readonly #endCutting: () => void;
  #isPaused = false;

  constructor(life: Life, connection: MessageConnection) {
    this.#life = life;
    this.#connection = connection;
    this.#endWatching = life.watch({
      hold: () => connection.pause(),
      release: () => {
        if (!this.#isPaused) connection.resume();
      },
    });
    this.#endCutting = life.atEnd(() => connection.destroy());
  }

  get remote(): string {
    return this.#connection.remote;
  }

  get unsentBytes(): number {
    return this.#connection.unsentBytes;
  }

  get partialBytes(): number {
    return this.#connection.partialBytes ?? 0;
  }

  expect(bytes: number): void {
    this.#connection.expect?.(bytes);
  }

  start({ onReceive, onClose, onDrain }: ConnectionHandlers<Uint8Array>): void {
    const life = this.#life;
    this.#connection.start({
      onReceive: (message) => life.run(() => onReceive(message)),
      onClose: (reason) => {
        this.#endWatching();
        this.#endCutting();
        life.run(() => onClose(reason));
      },
      onDrain: () => life.run(onDrain),
    });
    if (life.isHeld) this.#connection.pause();
  }

  send(outgoing: readonly Uint8Array[], onTaken?: () => void): void {
    this.#life.run(() => this.#connection.send(outgoing, onTaken));
  }

  pause(): void {
    this.#isPaused = true;
    this.#connection.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#life.isHeld) this.#connection.resume();
  }

  close(reason: string): void {
    this.#life.run(() => this.#connection.close(reason));
  }

  destroy(): void {
    this.#life.run(() => this.#connection.destroy());
  }
}
