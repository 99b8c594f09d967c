// The log of one replica as its process sees it: what is accepted, written and durable (D-34).
import { mutant } from "../../base/mutant.ts";
import type { LogEnds } from "../../replication/types.ts";
import type { Offset } from "../../model/ids.ts";
import { ProducerTable } from "../../model/producer-table.ts";
import { placeOf, type SimBatch, sequencedOf } from "./batch.ts";
import type { LogState, ProducerImage } from "./disk.ts";
import type { Pending } from "./journal.ts";

export class SimLog {
  state: LogState;
  writtenEnd: number;
  durableEnd: number;
  truncations = 0;
  readonly #producersMax: number;

  constructor(recovered: LogState, producersMax: number) {
    this.#producersMax = producersMax;
    this.state = recovered.copy();
    this.writtenEnd = recovered.endOffset;
    this.durableEnd = recovered.endOffset;
  }

  get endOffset(): number {
    return this.state.endOffset;
  }

  get ends(): LogEnds {
    const { endOffset, writtenEnd, durableEnd, truncations } = this;
    return {
      endOffset: endOffset as Offset,
      writtenEnd: writtenEnd as Offset,
      durableEnd: durableEnd as Offset,
      truncations,
    };
  }

  /** What the image says, and the batches above it. */
  replayProducers(image?: ProducerImage): ProducerTable {
    const { startOffset, batches, endOffset } = this.state;
    const most = this.#producersMax;
    const read = image === undefined ? undefined : ProducerTable.decode(image.bytes, image.endOffset, most);
    const producers = read ?? new ProducerTable(batches[0]?.baseOffset ?? startOffset, most);
    if (mutant("M23")) producers.advance(endOffset);
    for (const batch of batches) if (batch.baseOffset >= producers.endOffset) producers.observe(sequencedOf(batch));
    return producers;
  }

  cut(toOffset: number): void {
    this.state.cut(toOffset);
    this.truncations++;
    this.writtenEnd = Math.min(this.writtenEnd, this.state.endOffset);
    this.durableEnd = Math.min(this.durableEnd, this.state.endOffset);
  }

  reset(fromOffset: number): void {
    this.state.apply({ kind: "reset", fromOffset });
    this.truncations++;
    this.writtenEnd = fromOffset;
    this.durableEnd = fromOffset;
  }

  wrote({ op, truncations }: Pending): void {
    // What was accepted before it is in the journal before it, and nothing is accepted until it is durable.
    if (op.kind === "truncate" && truncations === this.truncations) this.writtenEnd = this.endOffset;
    if (op.kind === "append" && truncations === this.truncations)
      this.writtenEnd = Math.max(this.writtenEnd, op.batch.endOffset);
  }

  synced({ op, truncations }: Pending): void {
    if (op.kind === "truncate" && truncations === this.truncations) this.durableEnd = this.endOffset;
    if (op.kind === "append" && truncations === this.truncations)
      this.durableEnd = Math.max(this.durableEnd, op.batch.endOffset);
  }

  /** At most `max` whole batches of [from, end). */
  read(from: number, end: number, max: number): SimBatch[] {
    const { batches } = this.state;
    const found: SimBatch[] = [];
    for (let at = placeOf(batches, from); at < batches.length && found.length < max; at++) {
      const batch = batches[at] as SimBatch;
      if (batch.endOffset > end) break;
      found.push(batch);
    }
    return found;
  }
}
