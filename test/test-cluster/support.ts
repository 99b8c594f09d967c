// What the tests of test clusters share: values to text, and a reader that notes all that it is given.
import type { Client, Consumer } from "../../src/index.ts";

export const text = (bytes: Uint8Array | null): string => new TextDecoder().decode(bytes ?? new Uint8Array(0));

/** All records of a topic, in order of partition and offset. */
export async function readAll(client: Client, topic: string): Promise<string[]> {
  const read: { readonly at: number; readonly offset: number; readonly value: string }[] = [];
  for await (const { partition, offset, value } of client.consumer({ topics: [topic], untilEnd: true }))
    read.push({ at: partition, offset, value: text(value) });
  return read.sort((one, other) => one.at - other.at || one.offset - other.offset).map(({ value }) => value);
}

/** Reads on and on in the background. */
export class Reader {
  /** As they came. */
  readonly records: { readonly partition: number; readonly offset: number; readonly value: string }[] = [];
  /** Marks that were below one that the same partition had shown before: there must be none. */
  readonly fallen: string[] = [];
  readonly #consumer: Consumer;
  readonly #shown = new Map<number, number>();
  readonly #done: Promise<void>;
  #looks: (() => void)[] = [];

  constructor(client: Client, topic: string) {
    this.#consumer = client.consumer({ topics: [topic] });
    this.#done = this.#read();
    this.#done.catch(() => undefined);
  }

  async #read(): Promise<void> {
    try {
      for await (const batch of this.#consumer.batches()) {
        const { partition, highWatermark } = batch;
        const shown = this.#shown.get(partition) ?? 0;
        if (highWatermark < shown) this.fallen.push(`partition ${partition}: ${highWatermark} after ${shown}`);
        this.#shown.set(partition, highWatermark);
        for (const { offset, value } of batch) this.records.push({ partition, offset, value: text(value) });
        this.#look();
      }
    } finally {
      this.#look();
    }
  }

  #look(): void {
    const looks = this.#looks;
    this.#looks = [];
    for (const look of looks) look();
  }

  /** Resolves when so many were read; rejects with what ended the reading before. */
  async until(count: number): Promise<void> {
    const ended = this.#done.then(() => {
      throw new Error(`the reader ended after ${this.records.length} of ${count} records`);
    });
    ended.catch(() => undefined);
    while (this.records.length < count)
      await Promise.race([new Promise<void>((look) => this.#looks.push(look)), ended]);
  }

  async close(): Promise<void> {
    await this.#consumer.close();
    await this.#done;
  }

  /** Offsets by partition, as they came: 0, 1, 2 and so on where none was skipped or given twice. */
  offsets(): Map<number, number[]> {
    const by = new Map<number, number[]>();
    for (const { partition, offset } of this.records) by.set(partition, [...(by.get(partition) ?? []), offset]);
    return by;
  }
}

export const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
