// What the history of a cluster says: violations by the checkers, how much by the tally, and what was acknowledged while faults struck.
import { CheckerSet } from "../checkers/checker-set.ts";
import type { Violation } from "../checkers/checker.ts";
import { SEVERAL } from "../checkers/fault-atlas.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import { mergeHistories } from "../checkers/history-file.ts";
import { type Tally, tally, type TallyWindow } from "../checkers/tally.ts";
import { historyFile } from "./history-io.ts";

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

export function judge({ files, windows, finalFromMs }: JudgeParts): Judgement {
  const checkers = new CheckerSet(() => SEVERAL);
  const progress = windows.map(({ fromMs, untilMs }) => ({ fromMs, untilMs, count: 0 }));
  let events = 0;
  let acknowledged = 0;
  function* watched(): Generator<HistoryEvent> {
    for (const event of mergeHistories(files.map(historyFile))) {
      events++;
      checkers.observe(event);
      if (isProgress(event)) {
        acknowledged++;
        for (const window of progress)
          if (event.timeMs >= window.fromMs && event.timeMs < window.untilMs) window.count++;
      }
      yield event;
    }
  }
  const counted = tally(watched(), { windows, ...(finalFromMs === undefined ? {} : { finalFromMs }) });
  checkers.conclude();
  const byName = windows.map(({ name }, index): [string, WindowProgress] => {
    const gaps = counted.rows.map((row) => row.windows[index]?.longestPartitionGapMs ?? 0);
    return [name, { acknowledged: progress[index]?.count ?? 0, longestGapMs: Math.max(0, ...gaps) }];
  });
  const { violations, excusedLosses: excused } = checkers;
  return { violations, excused, tally: counted, events, acknowledged, windows: new Map(byName) };
}

/** Somebody answered yes; with acks=0 nobody does. */
function isProgress(event: HistoryEvent): boolean {
  return (event.type === "send ok" && event.offset !== undefined) || event.type === "metadata ok";
}
