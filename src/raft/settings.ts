// The numbers of the Raft core. Times are ticks of TICK_MS; every queue has a limit.
import { assert } from "../base/assert.ts";

/** How long the host lets pass between two calls of tick(). */
export const TICK_MS = 25;

export interface RaftSettings {
  readonly heartbeatTicks: number;
  /** Both inclusive; drawn anew for each wait. A follower that heard its leader within the minimum refuses (pre-)votes. */
  readonly electionTicksMin: number;
  readonly electionTicksMax: number;
  /** For the first waits of a process that has not heard of any leader yet (D-37). */
  readonly coldTicksMin: number;
  readonly coldTicksMax: number;
  readonly entriesPerMessageMax: number;
  readonly bytesPerMessageMax: number;
  /** Unacknowledged appends per peer. */
  readonly inFlightMessagesMax: number;
  readonly inFlightBytesMax: number;
  /** Proposals that wait for a majority. */
  readonly uncommittedEntriesMax: number;
  readonly uncommittedBytesMax: number;
  readonly waitingReadsMax: number;
  /** Entries handed out for applying at once. */
  readonly applyEntriesMax: number;
  /** Entries kept below a snapshot for followers that are a little behind. */
  readonly retainedEntries: number;
  readonly snapshotChunkBytes: number;
  /** A learner lacking more than this is not promoted. */
  readonly promotionLagMax: number;
}

/** D-37: heartbeat 100 ms, election 500-1,000 ms, 150-300 ms at a cold start. */
export const DEFAULT_SETTINGS: RaftSettings = {
  heartbeatTicks: 100 / TICK_MS,
  electionTicksMin: 500 / TICK_MS,
  electionTicksMax: 1000 / TICK_MS,
  coldTicksMin: 150 / TICK_MS,
  coldTicksMax: 300 / TICK_MS,
  entriesPerMessageMax: 256,
  bytesPerMessageMax: 512 * 1024,
  inFlightMessagesMax: 16,
  inFlightBytesMax: 4 * 1024 * 1024,
  uncommittedEntriesMax: 4096,
  uncommittedBytesMax: 16 * 1024 * 1024,
  waitingReadsMax: 4096,
  applyEntriesMax: 1024,
  retainedEntries: 1024,
  snapshotChunkBytes: 256 * 1024,
  promotionLagMax: 64,
};

export function checkSettings(settings: RaftSettings): void {
  for (const [name, value] of Object.entries(settings) as [string, number][]) {
    const least = name === "retainedEntries" || name === "promotionLagMax" ? 0 : 1;
    assert(Number.isSafeInteger(value) && value >= least, `${name} is ${value}, at least ${least}`);
  }
  const { heartbeatTicks, electionTicksMin, electionTicksMax, coldTicksMin, coldTicksMax } = settings;
  assert(
    heartbeatTicks < electionTicksMin,
    `heartbeat every ${heartbeatTicks} ticks, election after ${electionTicksMin}`,
  );
  assert(electionTicksMin < electionTicksMax, `election ticks ${electionTicksMin}..${electionTicksMax}`);
  assert(coldTicksMin <= coldTicksMax, `cold ticks ${coldTicksMin}..${coldTicksMax}`);
}
