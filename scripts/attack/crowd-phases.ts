// One client by itself, and the same one in a crowd: what both take, of a node or of anything else that answers.
import { setTimeout as sleep } from "node:timers/promises";
import type { CrowdProcess } from "./crowd-process.ts";
import { waitedForCpuMs } from "./node.ts";

const PAUSE_MS = 5;
/** A phase that has too few samples by then ends with them. */
const PHASE_MS_MAX = 60_000;
const LOOK_EVERY_MS = 50;

/** One that is asked, with its crowd. */
export interface Side {
  readonly pid: number;
  readonly crowd: CrowdProcess;
  sender(): { send(): Promise<unknown>; close(): Promise<void> };
  /** Again and again while the crowd has what it can get. */
  look?(): void;
  /** Once, before the crowd leaves. */
  lookClosely?(): Promise<void>;
}

/** A phase has both at least. */
export interface PhaseLength {
  readonly ms: number;
  readonly samples: number;
}

export interface Figures {
  /** ms. */
  readonly p50: number;
  readonly p99: number;
  readonly samples: number;
}

export interface CrowdedFigures {
  readonly crowded: Figures;
  /** Batches of the crowd that were acknowledged in a second. */
  readonly perSecond: number;
}

/** Again and again one small batch, acknowledged once it is safe. What one of the two ends waited for a processor does not count. */
export async function phase(side: Side, { ms, samples }: PhaseLength): Promise<Figures> {
  const sender = side.sender();
  const latencies: number[] = [];
  const beganMs = performance.now();
  const lasts = (): boolean => {
    const sinceMs = performance.now() - beganMs;
    return sinceMs < ms || (latencies.length < samples && sinceMs < PHASE_MS_MAX);
  };
  while (lasts()) {
    const [otherMs, ownMs] = [waitedForCpuMs(side.pid), waitedForCpuMs("self")];
    const startMs = performance.now();
    await sender.send();
    const tookMs = performance.now() - startMs;
    // Not the sum: both may have waited at the same time.
    const waitedMs = Math.max(waitedForCpuMs(side.pid) - otherMs, waitedForCpuMs("self") - ownMs);
    latencies.push(Math.max(0, tookMs - waitedMs));
    await sleep(PAUSE_MS);
  }
  await sender.close();
  latencies.sort((left, right) => left - right);
  const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), samples: latencies.length };
}

/** `perSecond`: the pace of a crowd that keeps to a schedule. */
export async function crowdedPhase(side: Side, length: PhaseLength, perSecond = 0): Promise<CrowdedFigures> {
  await side.crowd.ask({ kind: "gather", perSecond });
  const watch = setInterval(() => side.look?.(), LOOK_EVERY_MS);
  try {
    // Once all have what they can get, as it then is for good.
    await sleep(1_000);
    const before = await side.crowd.ask({ kind: "tell" });
    const beganMs = performance.now();
    const crowded = await phase(side, length);
    const after = await side.crowd.ask({ kind: "tell" });
    const pace = ((after.produced - before.produced) * 1000) / (performance.now() - beganMs);
    clearInterval(watch);
    await side.lookClosely?.();
    await side.crowd.ask({ kind: "disperse" });
    await sleep(1_000);
    return { crowded, perSecond: pace };
  } finally {
    clearInterval(watch);
  }
}
