// What a checker of Kafka-like logs finds in operations alone, by the names that Jepsen gives it; written from their meaning, to show that an exported
// history carries all that such a checker needs.
import type { Edn, EdnOp } from "./edn-reader.ts";

export type Anomaly =
  | "inconsistent-offsets"
  | "duplicate"
  | "lost-write"
  | "unseen"
  | "G1a"
  | "poll-skip"
  | "nonmonotonic-poll"
  | "nonmonotonic-send";

interface Records {
  readonly key: string;
  readonly records: readonly { readonly offset: number | undefined; readonly value: string }[];
}

/** Of a partition. */
interface Log {
  readonly byOffset: Map<number, Set<string>>;
  readonly acknowledged: Map<string, number>;
  readonly failed: Set<string>;
  readonly polled: Set<string>;
  highestPolled: number;
}

export function anomaliesOf(ops: readonly EdnOp[]): Anomaly[] {
  const logs = logsOf(ops);
  const found = new Set<Anomaly>();
  for (const log of logs.values()) {
    const offsets = [...log.byOffset];
    if (offsets.some(([, values]) => values.size > 1)) found.add("inconsistent-offsets");
    const all = offsets.flatMap(([, values]) => [...values]);
    if (new Set(all).size < all.length) found.add("duplicate");
    if ([...log.polled].some((value) => log.failed.has(value))) found.add("G1a");
    for (const [value, offset] of log.acknowledged)
      if (!log.polled.has(value)) found.add(offset < log.highestPolled ? "lost-write" : "unseen");
  }
  for (const anomaly of steps(ops, logs)) found.add(anomaly);
  return [...found].toSorted();
}

function logsOf(ops: readonly EdnOp[]): Map<string, Log> {
  const logs = new Map<string, Log>();
  const pairs = ops
    .filter(({ type, f }) => type !== "invoke" && f !== "assign")
    .flatMap((op) => recordsOf(op).map((of) => ({ op, of })));
  for (const {
    op,
    of: { key, records },
  } of pairs) {
    const fresh: Log = {
      byOffset: new Map(),
      acknowledged: new Map(),
      failed: new Set(),
      polled: new Set(),
      highestPolled: -1,
    };
    const log = logs.get(key) ?? fresh;
    logs.set(key, log);
    for (const { offset, value } of records) take(log, op, offset, value);
  }
  return logs;
}

function take(log: Log, { type, f }: EdnOp, offset: number | undefined, value: string): void {
  if (type === "fail") log.failed.add(value);
  if (f === "poll") {
    log.polled.add(value);
    log.highestPolled = Math.max(log.highestPolled, offset ?? -1);
  } else if (type === "ok") log.acknowledged.set(value, offset ?? -1);
  // A send that is only :info may not be there at all.
  if (offset === undefined || type !== "ok") return;
  const values = log.byOffset.get(offset) ?? new Set();
  log.byOffset.set(offset, values.add(value));
}

/** From one operation of a process to its next: polls go on where the one before ended, sends never go back. */
function* steps(ops: readonly EdnOp[], logs: ReadonlyMap<string, Log>): Generator<Anomaly> {
  const last = new Map<string, number>();
  for (const op of ops) {
    if (op.type !== "ok" || op.f === "assign") continue;
    for (const { key, records } of recordsOf(op))
      for (const { offset } of records) {
        if (offset === undefined) continue;
        const lane = `${op.process} ${op.f} ${key}`;
        const before = last.get(lane);
        last.set(lane, offset);
        if (before === undefined) continue;
        if (offset <= before) yield op.f === "send" ? "nonmonotonic-send" : "nonmonotonic-poll";
        const between = [...(logs.get(key)?.byOffset.keys() ?? [])].filter((at) => at > before && at < offset);
        if (op.f === "poll" && between.length > 0) yield "poll-skip";
      }
  }
}

function recordsOf(op: EdnOp): Records[] {
  return op.value.flatMap((step): Records[] => {
    if (!Array.isArray(step)) throw new Error("no step of an operation");
    const [, second, third] = step as readonly Edn[];
    if (op.f === "poll")
      return second instanceof Map
        ? [...(second as ReadonlyMap<string, Edn>)].map(([key, records]) => ({ key, records: pairsOf(records) }))
        : [];
    if (typeof second !== "string") throw new Error("a send without its key");
    return [
      {
        key: second,
        records: typeof third === "string" ? [{ offset: undefined, value: third }] : pairsOf([third ?? null]),
      },
    ];
  });
}

function pairsOf(records: Edn): Records["records"] {
  if (!Array.isArray(records)) throw new Error("no records");
  return (records as readonly Edn[]).map((record) => {
    const [offset, value] = record as readonly Edn[];
    if (typeof offset !== "number" || typeof value !== "string") throw new Error("no offset and value");
    return { offset, value };
  });
}
