// What the history of one fault says of each level of acknowledgement: the tally's counts, and what the checkers found broken.
import { CheckerSet } from "../../checkers/checker-set.ts";
import { SEVERAL } from "../../checkers/fault-atlas.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import { tally, type TallyRow, type TallyWindow } from "../../checkers/tally.ts";
import type { CellFigures, CellLatency } from "./result.ts";

export type WindowName = "before" | "during" | "after";

export interface HistoryParts {
  readonly events: Iterable<HistoryEvent>;
  readonly windows: readonly (TallyWindow & { readonly name: WindowName })[];
  readonly finalFromMs: number;
}

/** What a history alone can say. */
export type Measured = Omit<CellFigures, "observed" | "doubts">;

/** By topic; each has one level of acknowledgement. */
export function measuredOf({ events, windows, finalFromMs }: HistoryParts): ReadonlyMap<string, Measured> {
  const checkers = new TopicCheckers();
  function* watched(): Generator<HistoryEvent> {
    for (const event of events) {
      checkers.observe(event);
      yield event;
    }
  }
  // A send that was under way when the fault struck is the fault's.
  const ofFault = windows.toSorted((one, other) => Number(other.name === "during") - Number(one.name === "during"));
  const { rows } = tally(watched(), { windows: ofFault, finalFromMs });
  return new Map(rows.map((row) => [row.topic, { ...measured(row), violations: checkers.conclude(row.topic) }]));
}

function measured(row: TallyRow): Omit<Measured, "violations"> {
  const { sent, acknowledged, failed, unknown, lost, duplicated, outOfOrder, unjudged } = row;
  const windowOf = (wanted: WindowName) => row.windows.find(({ name }) => name === wanted);
  const latency = (wanted: WindowName): CellLatency | null => {
    const found = windowOf(wanted)?.latencyMs;
    return found === undefined ? null : { p50: rounded(found.p50), p99: rounded(found.p99), max: rounded(found.max) };
  };
  const gaps = (["during", "after"] as const).map((name) => windowOf(name)?.longestPartitionGapMs ?? 0);
  return {
    ...{ sent, acknowledged, failed, unknown, lost, duplicated, outOfOrder, unjudged },
    longestGapMs: rounded(Math.max(...gaps)),
    latencyMs: { before: latency("before"), during: latency("during"), after: latency("after") },
  };
}

/** To a hundredth of a millisecond. */
const rounded = (ms: number): number => Math.round(ms * 100) / 100;

/** A set of checkers for each topic, so that what breaks is counted against its level. Events of no topic are for all of them. */
class TopicCheckers {
  readonly #sets = new Map<string, CheckerSet>();
  readonly #topicOf = new Map<number, string>();

  observe(event: HistoryEvent): void {
    if (event.type === "send invoked") this.#topicOf.set(event.operation, event.topic);
    const topic = this.#placeOf(event);
    if (topic !== undefined) this.#setOf(topic).observe(event);
    else for (const set of this.#sets.values()) set.observe(event);
  }

  conclude(topic: string): readonly string[] {
    const set = this.#setOf(topic);
    set.conclude();
    return set.violations.map(({ invariant, message }) => `invariant ${invariant}: ${message}`);
  }

  #placeOf(event: HistoryEvent): string | undefined {
    if ("topic" in event) return event.topic;
    return "operation" in event ? this.#topicOf.get(event.operation) : undefined;
  }

  #setOf(topic: string): CheckerSet {
    const set = this.#sets.get(topic) ?? new CheckerSet(() => SEVERAL);
    this.#sets.set(topic, set);
    return set;
  }
}
