// The lock of a data directory: files `lock.<n>`, the holder being the one with the highest n.
//
// A lock file is written whole under another name and then hard-linked into place, so it is never seen half written, and
// link() fails when the name exists, so only one process can take a number. A dead owner's `lock.<n>` is taken over by
// linking `lock.<n+1>`; it is never unlinked first, which could remove the lock of a third process that was faster.
// Released and dead owners are told apart from live ones by (boot id, pid, start time of the process).
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, open, readdir, readFile, unlink } from "node:fs/promises";
import * as path from "node:path";
import type { LockOutcome } from "../ports/files.ts";
import { isUnknownBootId, readBootId } from "./host.ts";

const LOCK_NAME = /^lock\.([1-9]\d{0,14})$/;
const ATTEMPTS_MAX = 16;
/** Tells two processes of one pid apart where the system names no start time. */
const PROCESS_TOKEN = randomBytes(8).toString("hex");

interface Owner {
  readonly pid: number;
  /** Start time of the process in the kernel's ticks; "" where it cannot be read. */
  readonly startTime: string;
  readonly bootId: string;
  readonly token: string;
}

interface FoundLock {
  readonly number: number;
  readonly file: string;
  /** Undefined: unreadable, so nobody's. */
  readonly owner: Owner | undefined;
}

/** Field 22 of /proc/<pid>/stat, counted after the command name, which may itself hold blanks and brackets. */
function startTimeOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

function isAlive(owner: Owner, bootId: string): boolean {
  const sameBoot = owner.bootId === bootId || isUnknownBootId(owner.bootId) || isUnknownBootId(bootId);
  if (!sameBoot || !isRunning(owner.pid)) return false;
  if (owner.startTime !== "") return startTimeOf(owner.pid) === owner.startTime;
  return owner.pid !== process.pid || owner.token === PROCESS_TOKEN;
}

function parseOwner(text: string): Owner | undefined {
  const [pid, startTime, bootId, token] = text.split("\n");
  const number = Number(pid);
  if (
    !Number.isSafeInteger(number) ||
    number <= 0 ||
    startTime === undefined ||
    bootId === undefined ||
    token === undefined
  )
    return undefined;
  return { pid: number, startTime, bootId, token };
}

async function readOwner(file: string): Promise<Owner | undefined> {
  try {
    return parseOwner(await readFile(file, "utf8"));
  } catch {
    return undefined;
  }
}

async function findLocks(directory: string): Promise<FoundLock[]> {
  const found: FoundLock[] = [];
  for (const name of await readdir(directory)) {
    const match = LOCK_NAME.exec(name);
    if (match === null) continue;
    const file = path.join(directory, name);
    found.push({ number: Number(match[1]), file, owner: await readOwner(file) });
  }
  return found.sort((left, right) => right.number - left.number);
}

async function unlinkQuietly(file: string): Promise<void> {
  try {
    await unlink(file);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
  }
}

/** Tries to put our lock at `file`; false when another process has that number. */
async function take(file: string, bootId: string): Promise<boolean> {
  const draft = path.join(path.dirname(file), `lock.draft-${process.pid}-${randomBytes(6).toString("hex")}`);
  const handle = await open(draft, "wx", 0o644);
  try {
    await handle.writeFile([process.pid, startTimeOf(process.pid), bootId, PROCESS_TOKEN, ""].join("\n"));
    await handle.close();
    await link(draft, file);
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw thrown;
  } finally {
    await handle.close();
    await unlinkQuietly(draft);
  }
}

/** Takes the lock, or names its live owner. Rejects with the error of node:fs. */
export async function lockDirectory(directory: string): Promise<LockOutcome> {
  const bootId = readBootId();
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const found = await findLocks(directory);
    const live = found.find((lock) => lock.owner !== undefined && isAlive(lock.owner, bootId));
    if (live !== undefined) return { kind: "held", ownerPid: live.owner?.pid ?? 0 };
    const file = path.join(directory, `lock.${(found[0]?.number ?? 0) + 1}`);
    if (!(await take(file, bootId))) continue;
    // A process that listed before we linked may have taken another number meanwhile, so look again before believing.
    const others = (await findLocks(directory)).filter((lock) => lock.file !== file);
    const rival = others.find((lock) => lock.owner !== undefined && isAlive(lock.owner, bootId));
    if (rival !== undefined) {
      await unlinkQuietly(file);
      return { kind: "held", ownerPid: rival.owner?.pid ?? 0 };
    }
    for (const dead of others) await unlinkQuietly(dead.file);
    return { kind: "acquired", release: () => unlinkQuietly(file) };
  }
  return { kind: "held", ownerPid: 0 };
}
