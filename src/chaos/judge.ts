// What the history of a cluster says: violations by the checkers, how much by the tally, and what was acknowledged while faults struck.
import { setImmediate as turn } from "node:timers/promises";
import { CheckerSet } from "../checkers/checker-set.ts";
import type { Violation } from "../checkers/checker.ts";
import { SEVERAL } from "../checkers/fault-atlas.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import { mergeHistories } from "../checkers/history-file.ts";
import type { Tally, TallyWindow } from "../checkers/tally.ts";
import { TallyTaker } from "../checkers/tally-taker.ts";
import { historyFile } from "./history-io.ts";

const TURN_EVENTS = 5_000;

export interface Judgement {
  readonly violations: readonly Violation[];
  /** Losses of acks=1 that a change of the leader excuses. */
  readonly excused: number;
  readonly tally: Tally;
  readonly events: number;
  /** Records and changes to which somebody said yes. */
  readonly acknowledged: number;
  /** By the name of the window. */
  readonly windows: ReadonlyMap<string, WindowProgress>;
}

export interface WindowProgress {
  readonly acknowledged: number;
  /** Between two acknowledgements of one partition; all of a gap that reaches into the window. */
  readonly longestGapMs: number;
}

export interface JudgeParts {
  readonly files: readonly string[];
  readonly windows: readonly TallyWindow[];
  readonly finalFromMs: number | undefined;
}

/** Lets others have a turn now and then: a history may take a while. */
export async function judge({ files, windows, finalFromMs }: JudgeParts): Promise<Judgement> {
  const checkers = new CheckerSet(() => SEVERAL);
  const taker = new TallyTaker({ windows, ...(finalFromMs === undefined ? {} : { finalFromMs }) });
  const progress = windows.map(({ fromMs, untilMs }) => ({ fromMs, untilMs, count: 0 }));
  let events = 0;
  let acknowledged = 0;
  for (const event of mergeHistories(files.map(historyFile))) {
    if (++events % TURN_EVENTS === 0) await turn();
    checkers.observe(event);
    taker.observe(event);
    if (!isProgress(event)) continue;
    acknowledged++;
    for (const window of progress) if (event.timeMs >= window.fromMs && event.timeMs < window.untilMs) window.count++;
  }
  checkers.conclude();
  const tally = taker.conclude();
  const byName = windows.map(({ name }, index): [string, WindowProgress] => {
    const gaps = tally.rows.map((row) => row.windows[index]?.longestPartitionGapMs ?? 0);
    return [name, { acknowledged: progress[index]?.count ?? 0, longestGapMs: Math.max(0, ...gaps) }];
  });
  const { violations, excusedLosses: excused } = checkers;
  return { violations, excused, tally, events, acknowledged, windows: new Map(byName) };
}

/** Somebody answered yes; with acks=0 nobody does. */
function isProgress(event: HistoryEvent): boolean {
  return (event.type === "send ok" && event.offset !== undefined) || event.type === "metadata ok";
}
