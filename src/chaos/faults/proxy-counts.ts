// What a proxy counts since its start, in memory that the thread that asks shares with the thread that counts.

export const PROXY_COUNTS = [
  "connections",
  "bytesToNode",
  "bytesFromNode",
  "delayed",
  "stalled",
  "chunks",
  "flipped",
  "resets",
  "halfCloses",
] as const;

export type ProxyCount = (typeof PROXY_COUNTS)[number];
export type ProxyCounts = Readonly<Record<ProxyCount, number>>;

export class SharedCounts {
  readonly memory: SharedArrayBuffer;
  readonly #cells: BigInt64Array;

  constructor(memory = new SharedArrayBuffer(PROXY_COUNTS.length * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#cells = new BigInt64Array(memory);
  }

  add(what: ProxyCount, by = 1): void {
    Atomics.add(this.#cells, PROXY_COUNTS.indexOf(what), BigInt(by));
  }

  get all(): ProxyCounts {
    const read = (index: number) => Number(Atomics.load(this.#cells, index));
    return Object.fromEntries(PROXY_COUNTS.map((what, index) => [what, read(index)])) as Record<ProxyCount, number>;
  }
}
