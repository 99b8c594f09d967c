// The ledger of a real run: what was sent, what became of it, and what full reads found. The simulator's checkers judge it:
// everything acknowledged is at its offset with its bytes, offsets have no holes, nothing is there twice, and what is there without
// an acknowledgement was reported as of unknown outcome.
import { createHash } from "node:crypto";
import type { Acks, Client, Producer } from "../../src/client/types.ts";
import { OttlaError } from "../../src/index.ts";
import { CheckerSet } from "../../src/checkers/checker-set.ts";
import type { Violation } from "../../src/checkers/checker.ts";
import type { HistoryEvent, RecordRead } from "../../src/checkers/history.ts";

interface Content {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
}

/** A value that names itself: a number that is unique in the run, then its bytes' digest. */
function digestOf({ key, value }: Content): { readonly value: string; readonly sum: number } {
  const bytes = value ?? new Uint8Array(0);
  const hash = createHash("sha256").update(bytes).digest();
  const number = Buffer.from(bytes.subarray(0, 16)).toString("latin1").split(" ")[0];
  const whole = createHash("sha256")
    .update(key ?? "null")
    .update(hash)
    .digest();
  return { value: `${number}:${hash.toString("hex", 0, 12)}`, sum: whole.readUInt32BE(0) };
}

export function violationsOf(events: readonly HistoryEvent[]): readonly Violation[] {
  const checkers = new CheckerSet();
  for (const event of events) checkers.observe(event);
  return checkers.violations;
}

export interface Entry extends Content {
  readonly partition: number;
  readonly acks: Acks;
}

export class Ledger {
  readonly topic: string;
  readonly events: HistoryEvent[] = [];
  #operations = 0;
  #open = 0;
  acknowledged = 0;
  unknown = 0;
  failed = 0;

  constructor(topic: string) {
    this.topic = topic;
  }

  /** Sends whose outcome was not told yet. */
  get open(): number {
    return this.#open;
  }

  /** Why sends ended that were not appended, each reason once. */
  get refusals(): string[] {
    return [
      ...new Set(this.events.flatMap((event) => (event.type === "send failed" ? [event.reason ?? "not said"] : []))),
    ];
  }

  killed(): void {
    this.events.push({ type: "fault", timeMs: Date.now(), node: "1", fault: "process death" });
  }

  /** Resolves when the outcome is in the ledger, whatever it is. */
  async send(producer: Producer, { key, value, partition, acks }: Entry): Promise<void> {
    const operation = this.#operations++;
    this.#open++;
    const common = { process: "producer", topic: this.topic, partition, acks };
    this.events.push({ type: "send invoked", timeMs: Date.now(), operation, ...common, ...digestOf({ key, value }) });
    try {
      const { offset } = await producer.send(this.topic, { key, value, partition }, { acks });
      this.acknowledged++;
      this.events.push({ type: "send ok", timeMs: Date.now(), operation, offset });
    } catch (thrown) {
      if (!(thrown instanceof OttlaError)) throw thrown;
      this.#ended(operation, thrown);
    } finally {
      this.#open--;
    }
  }

  #ended(operation: number, error: OttlaError): void {
    if (error.outcome === undefined) throw new Error("a send failed without an outcome", { cause: error });
    const isUnknown = error.outcome === "unknown";
    if (isUnknown) this.unknown++;
    else this.failed++;
    const type = isUnknown ? "send unknown" : "send failed";
    this.events.push({ type, timeMs: Date.now(), operation, offset: undefined, reason: error.message });
  }

  /** Reads the topic whole. Nothing may be under way. Returns how many records there are. */
  async scan(client: Client): Promise<number> {
    if (this.#open > 0) throw new Error(`${this.#open} sends are open`);
    const offsets = await client.admin().offsets(this.topic);
    const reads = new Map<number, RecordRead[]>(offsets.map(({ partition }) => [partition, []]));
    for await (const batch of client.consumer({ topics: [this.topic], untilEnd: true }).batches()) {
      const { highWatermark, partition } = batch;
      for (const record of batch) {
        const common = { process: "reader", topic: this.topic, partition, highWatermark, fromOffset: 0 };
        const read = {
          type: "read",
          timeMs: Date.now(),
          ...common,
          offset: record.offset,
          ...digestOf(record),
        } as const;
        reads.get(partition)?.push(read);
      }
    }
    let found = 0;
    for (const { partition, startOffset, endOffset } of offsets) {
      const records = reads.get(partition) ?? [];
      found += records.length;
      const common = { timeMs: Date.now(), topic: this.topic, partition };
      // The end was told before the records were read.
      this.events.push({ type: "end", source: "told", ...common, endOffset });
      this.events.push(...records);
      this.events.push({ type: "scan", process: "reader", ...common, startOffset, endOffset, records });
    }
    return found;
  }
}
