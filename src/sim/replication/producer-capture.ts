// Producer images of one log, as a checkpoint makes them: what it takes is kept by a later one, when it is committed and durable (D-15).
import type { ProducerTable } from "../../model/producer-table.ts";
import type { SimBatch } from "./batch.ts";
import type { PlatterLog, ProducerImage } from "./disk.ts";

export class ProducerCapture {
  #taken: ProducerImage | undefined;

  /** The log ends at `toOffset`. */
  cut(toOffset: number): void {
    if (this.#taken !== undefined && this.#taken.endOffset > toOffset) this.#taken = undefined;
  }

  /** `keptEnd`: so much will never be taken back. `last` is the log's last batch; undefined: nothing can be taken now. */
  checkpoint(
    platter: PlatterLog,
    keptEnd: number,
    now: { readonly producers: ProducerTable; readonly last: SimBatch | undefined },
  ): void {
    const taken = this.#taken;
    if (taken !== undefined && taken.endOffset <= keptEnd) {
      platter.image = taken;
      this.#taken = undefined;
    }
    const { producers, last } = now;
    const { endOffset } = producers;
    if (this.#taken === undefined && last?.endOffset === endOffset)
      this.#taken = { bytes: producers.encode(), endOffset, last };
  }
}
