// When records are sent. Open loop: by a schedule that no answer moves, so that a record which had to wait counts from when it was due (coordinated
// omission). Closed loop: the next one when those before made room.

export interface PaceClock {
  nowMs(): number;
  sleep(ms: number): Promise<void>;
}

/** Gives one record away that was due then; a promise when there is no room for more until it resolves (also because the producer was closed). */
export type Send = (dueMs: number) => Promise<void> | undefined;

export interface OpenPace {
  readonly clock: PaceClock;
  readonly firstMs: number;
  readonly intervalMs: number;
  /** End of the schedule. It may be moved to an earlier time while it runs. */
  readonly untilMs: () => number;
  /** What was due and is not sent by then is left. */
  readonly giveUpMs: () => number;
  readonly send: Send;
}

/** Resolves to how many records of the schedule were left unsent. */
export async function paceOpen({ clock, firstMs, intervalMs, untilMs, giveUpMs, send }: OpenPace): Promise<number> {
  let count = 0;
  // By multiplication: adding up would drift.
  const dueMs = () => firstMs + count * intervalMs;
  while (dueMs() < untilMs()) {
    const nowMs = clock.nowMs();
    if (nowMs >= giveUpMs()) return Math.ceil((untilMs() - dueMs()) / intervalMs);
    let room: Promise<void> | undefined;
    while (room === undefined && dueMs() <= nowMs && dueMs() < untilMs()) {
      room = send(dueMs());
      count++;
    }
    if (room !== undefined) await room;
    else if (dueMs() < untilMs()) await clock.sleep(Math.max(0, dueMs() - clock.nowMs()));
  }
  return 0;
}

/** Asking for the time costs as much as sending a record: it is asked once for so many. */
const BURST = 32;

export interface ClosedPace {
  readonly clock: PaceClock;
  readonly untilMs: () => number;
  readonly send: Send;
}

export async function paceClosed({ clock, untilMs, send }: ClosedPace): Promise<void> {
  for (let nowMs = clock.nowMs(); nowMs < untilMs(); nowMs = clock.nowMs()) {
    let room: Promise<void> | undefined;
    for (let burst = 0; room === undefined && burst < BURST; burst++) room = send(nowMs);
    if (room !== undefined) await room;
  }
}
