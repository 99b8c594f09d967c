// What a process of this machine used: processor time, bytes given to the disk, memory, descriptors. Linux's /proc; elsewhere unknown.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The kernel's unit of processor times in /proc, 100 to the second on every Linux that Node runs on (USER_HZ). */
const TICKS_PER_SECOND = 100;
const PAGE_BYTES = 4096;

export interface Usage {
  readonly cpuSeconds: number;
  /** What it made the file system write to the device; 0 on a tmpfs. */
  readonly writtenBytes: number;
}

export interface Footprint {
  readonly rssBytes: number;
  readonly openFiles: number;
}

/** Undefined when there is no such process, or it is not ours to look at. */
export function usageOf(pid: number): Usage | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may hold spaces: fields 14 and 15 are utime and stime.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const io = readFileSync(`/proc/${pid}/io`, "utf8");
    const written = /^write_bytes: (\d+)$/m.exec(io)?.[1];
    return {
      cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
      writtenBytes: Number(written),
    };
  } catch {
    return undefined;
  }
}

export function footprintOf(pid: number): Footprint | undefined {
  try {
    const [, residentPages] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ");
    return {
      rssBytes: Number(residentPages) * PAGE_BYTES,
      openFiles: readdirSync(`/proc/${pid}/fd`).length,
    };
  } catch {
    return undefined;
  }
}

const LOCAL_HOST = /^(127(\.\d+){3}|localhost|\[::1\]|::1):(\d+)$/;

/** The process of this machine that listens at host:port; undefined when it is another machine's, or another user's. */
export function listenerOf(address: string): number | undefined {
  const port = LOCAL_HOST.exec(address)?.[3];
  if (port === undefined) return undefined;
  const inodes = listeningInodes(Number(port));
  if (inodes.size === 0) return undefined;
  return pids().find((pid) => socketInodes(pid).some((inode) => inodes.has(inode)));
}

const LISTEN = "0A";

function listeningInodes(port: number): Set<string> {
  const found = new Set<string>();
  const hexPort = port.toString(16).toUpperCase().padStart(4, "0");
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    for (const line of lines(table)) {
      // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
      const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
      if (state === LISTEN && local.endsWith(`:${hexPort}`) && inode !== undefined) found.add(inode);
    }
  }
  return found;
}

function lines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n").slice(1);
  } catch {
    return [];
  }
}

function pids(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

function socketInodes(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => inodeOf(`/proc/${pid}/fd/${fd}`));
  } catch {
    return [];
  }
}

function inodeOf(link: string): string[] {
  try {
    const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(link))?.[1];
    return inode === undefined ? [] : [inode];
  } catch {
    return [];
  }
}
