// Notices that a listening process runs out of file descriptors. libuv sheds the connection that it has no descriptor for, and tells nobody.
import { readFileSync, readdirSync } from "node:fs";
import { monoMs } from "./host-time.ts";

/** Looking costs a directory of as many entries as there are descriptors. */
const LOOK_EVERY_MS = 10_000;
/** Looked at after so many more connections at the latest, whatever the time; earlier where fewer are left. */
const LOOK_EVERY_CONNECTIONS = 64;
/** A sixteenth of them left is short. */
const SHORT_SHARE = 15 / 16;

/** The soft limit of open files of this process; undefined where the system does not say. */
export function openFilesLimit(): number | undefined {
  try {
    const row = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return row === null ? undefined : Number(row[1]);
  } catch {
    return undefined;
  }
}

function openFilesCount(): number {
  try {
    return readdirSync("/proc/self/fd").length;
  } catch {
    return Number.POSITIVE_INFINITY; // not even one for this
  }
}

export class FileWatch {
  readonly #onShort: (about: string) => void;
  readonly #limit: number | undefined;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #toldMs = Number.NEGATIVE_INFINITY;
  #lookAfter = 0;

  constructor(onShort: (about: string) => void, limit: number | undefined = openFilesLimit()) {
    this.#onShort = onShort;
    this.#limit = limit;
  }

  /** One more connection was accepted. */
  opened(): void {
    if (this.#limit === undefined) return;
    const nowMs = monoMs();
    if (nowMs - this.#toldMs < LOOK_EVERY_MS) return;
    if (--this.#lookAfter > 0 && nowMs - this.#lookedMs < LOOK_EVERY_MS) return;
    this.#lookedMs = nowMs;
    const count = openFilesCount();
    const left = this.#limit * SHORT_SHARE - count;
    this.#lookAfter = Math.min(LOOK_EVERY_CONNECTIONS, left / 2);
    if (left <= 0) this.#tell(`${count} of ${this.#limit} file descriptors are in use`);
  }

  /** A connection could not be accepted. */
  failed(): void {
    this.#tell("a connection could not be accepted: no file descriptor left");
  }

  #tell(what: string): void {
    const nowMs = monoMs();
    if (nowMs - this.#toldMs < LOOK_EVERY_MS) return;
    this.#toldMs = nowMs;
    this.#onShort(`${what}; raise the limit (ulimit -n, LimitNOFILE=), or lower connections.max`);
  }
}
