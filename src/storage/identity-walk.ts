// A walk over all batches of a segment that makes its rows anew, and tells whether they are proven: whether it ends with the chain that it must.
import { mutant } from "../base/mutant.ts";
import type { ScannedBatch } from "./batch-scan.ts";
import { chainOver } from "./identity.ts";
import { type ChainPoint, IdentityRows } from "./identity-rows.ts";

export class IdentityWalk {
  readonly rows: IdentityRows;
  readonly end: ChainPoint;
  readonly #base: number;
  readonly #intervalBytes: number;
  #point: ChainPoint;

  constructor(of: {
    readonly seed: number;
    readonly base: number;
    readonly end: ChainPoint;
    readonly intervalBytes: number;
  }) {
    this.rows = new IdentityRows(of.seed);
    this.end = of.end;
    this.#base = of.base;
    this.#intervalBytes = of.intervalBytes;
    this.#point = { position: 0, chain: of.seed };
  }

  get chain(): number {
    return this.#point.chain;
  }

  get isProven(): boolean {
    const { position, chain } = this.#point;
    return position === this.end.position && (chain === this.end.chain || mutant("M22"));
  }

  /** The next batch; false: that was the last. */
  take(batch: ScannedBatch): boolean {
    this.#point = pointBehind(this.#point, batch);
    const { position } = this.#point;
    if (position - this.rows.lastPosition > this.#intervalBytes)
      this.rows.add(batch.last + 1 - this.#base, this.#point);
    return position < this.end.position;
  }
}

/** The chain goes on with a batch. */
export function pointBehind({ chain }: ChainPoint, batch: ScannedBatch): ChainPoint {
  return { position: batch.position + batch.sizeBytes, chain: chainOver(chain, batch.bytes, batch.at) };
}
