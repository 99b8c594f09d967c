// Places of a segment at which its chain is known (D-16): so that a part of it can be checked without reading the rest. Row 0 is its beginning.

/** What everything below a position of the segment amounts to. */
export interface ChainPoint {
  readonly position: number;
  readonly chain: number;
}

/** A part of a segment whose batches can be checked: `ends` are in their order, one at least. */
export interface ProvenSpan {
  readonly start: ChainPoint;
  readonly ends: readonly ChainPoint[];
}

const FIELDS = 3;

export class IdentityRows {
  /** Exclusive end of the offsets below the row, relative to the base; position; chain. */
  #fields: Uint32Array;
  #count = 1;

  constructor(seed: number) {
    this.#fields = new Uint32Array(FIELDS * 2);
    this.#fields[2] = seed;
  }

  get count(): number {
    return this.#count;
  }

  relativeEndAt(row: number): number {
    return this.#fields[row * FIELDS] as number;
  }

  positionAt(row: number): number {
    return this.#fields[row * FIELDS + 1] as number;
  }

  chainAt(row: number): number {
    return this.#fields[row * FIELDS + 2] as number;
  }

  get lastPosition(): number {
    return this.positionAt(this.#count - 1);
  }

  add(relativeEnd: number, point: ChainPoint): void {
    const at = this.#count * FIELDS;
    if (at === this.#fields.length) {
      const grown = new Uint32Array(this.#fields.length * 2);
      grown.set(this.#fields);
      this.#fields = grown;
    }
    this.#fields[at] = relativeEnd;
    this.#fields[at + 1] = point.position;
    this.#fields[at + 2] = point.chain;
    this.#count++;
  }

  /** The last row that is not behind this relative offset: the batch that holds it starts there or later. */
  rowBefore(relative: number): number {
    return this.#last((row) => this.relativeEndAt(row) <= relative);
  }

  /** The last row that is not behind this position. */
  rowAt(position: number): number {
    return this.#last((row) => this.positionAt(row) <= position);
  }

  /** Of row 0 the condition holds. */
  #last(holds: (row: number) => boolean): number {
    let low = 0;
    let high = this.#count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (holds(middle)) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  point(row: number): ChainPoint {
    return { position: this.positionAt(row), chain: this.chainAt(row) };
  }

  /** The rows up to and including one. */
  copyTo(row: number): IdentityRows {
    const copy = new IdentityRows(this.chainAt(0));
    for (let at = 1; at <= row; at++) copy.add(this.relativeEndAt(at), this.point(at));
    return copy;
  }

  /** The points behind a row, up to the end of the segment, which is the last. */
  *pointsBehind(row: number, end: ChainPoint): Generator<ChainPoint, undefined> {
    for (let next = row + 1; next < this.#count && this.positionAt(next) < end.position; next++) yield this.point(next);
    yield end;
    return undefined;
  }

  /**
   * From the row before a relative offset to the first point that is `wantedBytes` behind the next, within `maxBytes` if that is possible. `end` is that
   * of the segment.
   */
  span(
    relative: number,
    to: { readonly wantedBytes: number; readonly maxBytes: number; readonly end: ChainPoint },
  ): ProvenSpan {
    const row = this.rowBefore(relative);
    const start = this.point(row);
    const ends: ChainPoint[] = [];
    for (const point of this.pointsBehind(row, to.end)) {
      if (ends.length > 0 && point.position - start.position > to.maxBytes) break;
      ends.push(point);
      if (point.position >= (ends[0] as ChainPoint).position + to.wantedBytes) break;
    }
    return { start, ends };
  }
}
