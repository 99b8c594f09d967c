// Which process a pid means: a pid is reused, a pid with its start time and the kernel's boot is not.
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from boot to the process's start (field 22 of /proc/<pid>/stat); 0 where /proc does not exist. */
  readonly startTicks: number;
  readonly bootId: string;
}

function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

/** The fields of /proc/<pid>/stat from the third on; undefined without such a process. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may hold spaces and parentheses itself.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

/** Undefined: no such process, or one that ended and was not waited for yet. */
function startTicksOf(pid: number): number | undefined {
  const fields = statOf(pid);
  return fields === undefined || fields[0] === "Z" || fields[0] === "X" ? undefined : Number(fields[19]);
}

const hasProc = () => startTicksOf(process.pid) !== undefined;

export const isSame = (one: ProcessIdentity, other: ProcessIdentity) =>
  one.pid === other.pid && one.startTicks === other.startTicks && one.bootId === other.bootId;

export function identify(pid: number): ProcessIdentity {
  return { pid, startTicks: startTicksOf(pid) ?? 0, bootId: bootId() };
}

/** True when exactly this process still runs. Without /proc it is only known that some process has the pid. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (hasProc()) return startTicksOf(identity.pid) === identity.startTicks && bootId() === identity.bootId;
  try {
    process.kill(identity.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** True while the kernel holds exactly this process stopped (SIGSTOP). */
export function isPaused(identity: ProcessIdentity): boolean {
  const [state] = statOf(identity.pid) ?? [];
  return (state === "T" || state === "t") && isAlive(identity);
}

/** True when keys typed on this process's terminal come to it: one in the background would be stopped for reading them. */
export function isInForeground(): boolean {
  const fields = statOf(process.pid);
  // Fields 5 and 8: own process group, and the one that has the terminal.
  return fields === undefined || fields[2] === fields[5];
}

/** Signals exactly this process; false when it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    process.kill(identity.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}
