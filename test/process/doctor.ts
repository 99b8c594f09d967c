// A sound history with one thing made wrong, in each way that the ledger's checkers have to notice.
import type { HistoryEvent, RecordRead, ScanEnded } from "../../src/checkers/history.ts";

export interface Doctored {
  readonly wrong: string;
  readonly events: readonly HistoryEvent[];
  /** The number of the invariant that has to be named. */
  readonly invariant: number;
}

/** One acknowledged record, and the last full read of its partition. */
function victimOf(events: readonly HistoryEvent[]): { readonly read: RecordRead; readonly scan: ScanEnded } {
  const scan = events.filter((event) => event.type === "scan").at(-1);
  const acknowledged = new Set(events.flatMap((event) => (event.type === "send ok" ? [event.operation] : [])));
  const values = new Set(
    events.flatMap((event) =>
      event.type === "send invoked" && acknowledged.has(event.operation) ? [event.value] : [],
    ),
  );
  const read = events.findLast(
    (event) => event.type === "read" && event.partition === scan?.partition && values.has(event.value),
  );
  if (scan === undefined || read?.type !== "read")
    throw new Error("the history has no acknowledged record that was read");
  return { read, scan };
}

/** Replaces the record in the last full read, as it was read and as the scan lists it. */
function reread(
  events: readonly HistoryEvent[],
  { read, scan }: { readonly read: RecordRead; readonly scan: ScanEnded },
  changed: readonly RecordRead[],
): HistoryEvent[] {
  const at = scan.records.findIndex((record) => record.offset === read.offset);
  const records = [...scan.records.slice(0, at), ...changed, ...scan.records.slice(at + 1)];
  const place = events.indexOf(read);
  return [...events.slice(0, place), ...changed, ...events.slice(place + 1)].map((event) =>
    event === scan ? { ...scan, records } : event,
  );
}

export function doctored(events: readonly HistoryEvent[]): Doctored[] {
  const victim = victimOf(events);
  const { read, scan } = victim;
  const isOfVictim = (event: HistoryEvent) => event.type === "send invoked" && event.value === read.value;
  const sent = events.find(isOfVictim);
  const operation = sent?.type === "send invoked" ? sent.operation : -1;
  const again = { ...read, offset: scan.endOffset, highWatermark: scan.endOffset + 1 };
  return [
    { wrong: "an acknowledged record is gone", invariant: 1, events: reread(events, victim, []) },
    {
      wrong: "an acknowledged record has other bytes",
      invariant: 1,
      events: reread(events, victim, [{ ...read, value: `${read.value.split(":")[0]}:0` }]),
    },
    {
      wrong: "its key has other bytes",
      invariant: 19,
      events: reread(events, victim, [{ ...read, sum: read.sum ^ 1 }]),
    },
    { wrong: "an offset is missing", invariant: 4, events: reread(events, victim, []) },
    { wrong: "the end is behind what was told", invariant: 16, events: [...events, endBehind(scan)] },
    { wrong: "a value is there twice", invariant: 17, events: [...events, again] },
    {
      wrong: "a value is there that nobody sent",
      invariant: 18,
      events: [...events, { ...again, value: "nobody:0" }],
    },
    {
      wrong: "a value is there whose send failed",
      invariant: 18,
      events: events.map((event) =>
        event.type === "send ok" && event.operation === operation ? { ...event, type: "send failed" } : event,
      ),
    },
  ];
}

function endBehind({ timeMs, topic, partition, endOffset }: ScanEnded): HistoryEvent {
  return { type: "end", source: "told", timeMs, topic, partition, endOffset: endOffset - 1 };
}
