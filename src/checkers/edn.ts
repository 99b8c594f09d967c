// A history as Jepsen's Kafka checker (jepsen.tests.kafka) reads it: operations in EDN, one per line.
//
//   key      a partition: "topic-partition"; of a topic that was deleted and made again, "topic#2-partition"
//   process  does one thing at a time there, and is never heard of again after an operation of unknown outcome. A producer with several sends on the
//            way is several processes; a reader is a new one for each partition and each seek.
//   :ok      acks=all alone. What acks=0 and 1 promise is less than the checker holds an :ok for, so they are :info, with the offset where it is known.
//   :poll    up to 100 records in a row of one reader. It begins when the one before it ends, for a reader always waits.
import type { Acks } from "../client/types.ts";
import {
  type HistoryEvent,
  partitionName,
  type RecordRead,
  type ScanEnded,
  type SendEnded,
  type SendInvoked,
} from "./history.ts";

const POLL_RECORDS_MAX = 100;

/** Without line feeds. */
export function* ednLines(events: Iterable<HistoryEvent>): Generator<string, undefined> {
  const writer = new EdnWriter();
  for (const event of events) yield* writer.linesOf(event);
  yield* writer.rest();
  return undefined;
}

interface OpenSend {
  readonly ednProcess: number;
  readonly process: string;
  readonly key: string;
  readonly value: string;
  readonly acks: Acks;
}

interface Reader {
  readonly ednProcess: number;
  readonly key: string;
  records: string[];
}

class EdnWriter {
  readonly #open = new Map<number, OpenSend>();
  /** Of each producer: processes with nothing on the way. */
  readonly #idle = new Map<string, number[]>();
  /** By reader and partition. */
  readonly #readers = new Map<string, Reader>();
  /** How often a topic was deleted. */
  readonly #deleted = new Map<string, number>();
  #processes = 0;
  #index = 0;
  #startMs: number | undefined;
  #nowMs = 0;

  *linesOf(event: HistoryEvent): Generator<string> {
    this.#startMs ??= event.timeMs;
    this.#nowMs = event.timeMs;
    switch (event.type) {
      case "send invoked":
        yield this.#invoked(event);
        return;
      case "send ok":
      case "send failed":
      case "send unknown":
        yield* this.#ended(event);
        return;
      case "read":
        yield* this.#read(event);
        return;
      case "scan":
        yield* this.#scan(event);
        return;
      case "topic deleting":
        this.#deleted.set(event.topic, (this.#deleted.get(event.topic) ?? 0) + 1);
        return;
      default:
        return;
    }
  }

  /** Of readers: what they got last. */
  *rest(): Generator<string> {
    for (const reader of this.#readers.values()) if (reader.records.length > 0) yield this.#polled(reader);
  }

  #invoked(event: SendInvoked): string {
    const { operation, process, value, acks } = event;
    const ednProcess = this.#idle.get(process)?.pop() ?? this.#processes++;
    const send: OpenSend = { ednProcess, process, key: this.#keyOf(event), value, acks };
    this.#open.set(operation, send);
    return this.#line(ednProcess, "invoke", "send", sendOf(send));
  }

  *#ended(event: SendEnded): Generator<string> {
    const send = this.#open.get(event.operation);
    if (send === undefined) return;
    this.#open.delete(event.operation);
    const type = endOf(send.acks, event.type);
    const value = event.type === "send ok" ? sendOf(send, event.offset) : sendOf(send);
    yield this.#line(send.ednProcess, type, "send", value);
    if (type === "info") return;
    const idle = this.#idle.get(send.process);
    if (idle === undefined) this.#idle.set(send.process, [send.ednProcess]);
    else idle.push(send.ednProcess);
  }

  *#read(event: RecordRead): Generator<string> {
    const id = `${event.process} ${partitionName(event)}`;
    let reader = this.#readers.get(id);
    if (reader === undefined || event.afterOffset === undefined) {
      if (reader !== undefined && reader.records.length > 0) yield this.#polled(reader);
      reader = yield* this.#newReader(this.#keyOf(event), false);
      this.#readers.set(id, reader);
    }
    reader.records.push(recordOf(event));
    if (reader.records.length < POLL_RECORDS_MAX) return;
    yield this.#polled(reader);
    yield this.#line(reader.ednProcess, "invoke", "poll", "[[:poll]]");
  }

  *#scan(scan: ScanEnded): Generator<string> {
    const reader = yield* this.#newReader(this.#keyOf(scan), true);
    for (let from = 0; from < scan.records.length; from += POLL_RECORDS_MAX) {
      if (from > 0) yield this.#line(reader.ednProcess, "invoke", "poll", "[[:poll]]");
      reader.records = scan.records.slice(from, from + POLL_RECORDS_MAX).map(recordOf);
      yield this.#polled(reader);
    }
    if (scan.records.length === 0) yield this.#polled(reader);
  }

  /** Assigned its partition, and polling. */
  *#newReader(key: string, fromStart: boolean): Generator<string, Reader> {
    const reader: Reader = { ednProcess: this.#processes++, key, records: [] };
    const value = `[${text(key)}]`;
    const more = fromStart ? ", :seek-to-beginning? true" : "";
    yield this.#line(reader.ednProcess, "invoke", "assign", value, more);
    yield this.#line(reader.ednProcess, "ok", "assign", value, more);
    yield this.#line(reader.ednProcess, "invoke", "poll", "[[:poll]]");
    return reader;
  }

  #polled(reader: Reader): string {
    const records = reader.records.length === 0 ? "" : `${text(reader.key)} [${reader.records.join(" ")}]`;
    reader.records = [];
    return this.#line(reader.ednProcess, "ok", "poll", `[[:poll {${records}}]]`);
  }

  #keyOf({ topic, partition }: { readonly topic: string; readonly partition: number }): string {
    const deleted = this.#deleted.get(topic) ?? 0;
    return partitionName({ topic: deleted === 0 ? topic : `${topic}#${deleted + 1}`, partition });
  }

  #line(ednProcess: number, type: EdnType, f: "send" | "poll" | "assign", value: string, more = ""): string {
    const timeNs = Math.round((this.#nowMs - (this.#startMs ?? 0)) * 1e6);
    const index = this.#index++;
    return `{:index ${index}, :time ${timeNs}, :process ${ednProcess}, :type :${type}, :f :${f}, :value ${value}${more}}`;
  }
}

type EdnType = "invoke" | "ok" | "fail" | "info";

function endOf(acks: Acks, ended: SendEnded["type"]): EdnType {
  if (ended === "send failed") return "fail";
  return ended === "send ok" && acks === "all" ? "ok" : "info";
}

function sendOf({ key, value }: OpenSend, offset?: number): string {
  return `[[:send ${text(key)} ${offset === undefined ? text(value) : `[${offset} ${text(value)}]`}]]`;
}

function recordOf({ offset, value }: { readonly offset: number; readonly value: string }): string {
  return `[${offset} ${text(value)}]`;
}

/** A string of JSON is one of EDN, as Clojure reads it. */
function text(value: string): string {
  return JSON.stringify(value);
}
