// Puts emptied batches that nobody needs by themselves together, so that a compacted log does not grow by headers. Pure but for what it hands on.
import { mutant } from "../../base/mutant.ts";
import type { ProducerFields } from "../../model/record-batch.ts";
import { forgottenAsId } from "../../model/sequenced-batch.ts";
import type { Checksum } from "../../ports/checksum.ts";
import { type EmptyBatch, encodeEmpty, NO_PRODUCER } from "./empty-batch.ts";

const OFFSET_DELTA_MAX = 2 ** 31 - 1;

/**
 * In the order of the log, without a gap: what `emit` gets is so, too.
 *
 * D-15: of a producer that made room for others nothing may be left but what is emptied here. Whoever reads the log later, or has lost its image of
 * producers, would take a batch of his that is sent again for a new one; so what is put together says up to which id somebody was forgotten. The table
 * of the log has read what earlier passes left, and knows no less.
 */
export class EmptyMerger {
  readonly #checksum: Checksum;
  readonly #emit: (batch: Uint8Array) => Promise<void>;
  readonly #merged: ProducerFields;
  #pending: EmptyBatch | undefined;

  constructor(
    parts: { readonly checksum: Checksum; readonly forgottenMaxId: number },
    emit: (batch: Uint8Array) => Promise<void>,
  ) {
    this.#checksum = parts.checksum;
    this.#emit = emit;
    this.#merged = mutant("D-15g") ? NO_PRODUCER : { ...NO_PRODUCER, producerId: forgottenAsId(parts.forgottenMaxId) };
  }

  async batch(batch: Uint8Array): Promise<void> {
    await this.flush();
    await this.#emit(batch);
  }

  /** `isNeeded`: what it says of its producer. */
  async empty(empty: EmptyBatch, isNeeded: boolean): Promise<void> {
    if (isNeeded) return this.batch(encodeEmpty(empty, this.#checksum));
    const before = this.#pending;
    if (before !== undefined && before.epoch === empty.epoch && empty.last - before.base <= OFFSET_DELTA_MAX) {
      const maxTimestamp = Math.max(before.maxTimestamp, empty.maxTimestamp);
      this.#pending = { ...before, last: empty.last, maxTimestamp };
      return;
    }
    await this.flush();
    this.#pending = { ...empty, attributes: 0, producer: this.#merged };
  }

  async flush(): Promise<void> {
    const empty = this.#pending;
    this.#pending = undefined;
    if (empty !== undefined) await this.#emit(encodeEmpty(empty, this.#checksum));
  }
}
