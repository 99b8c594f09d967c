// Where a fetch waits: what is kept of its last look, compact, since a hundred thousand of them may wait (D-26).
import type { Replica } from "./replica.ts";

/** What a look has to tell of one entry. */
export interface LookedAt {
  readonly replica: Replica | undefined;
  readonly highWatermark: number;
  /** Bytes that the partition had accepted. */
  readonly acceptedBytes: number;
  /** Everything accepted was below the mark. */
  readonly isSettled: boolean;
}

export class ParkedFetch {
  /** Each once. */
  readonly replicas: readonly Replica[];
  readonly #highWatermarks: Float64Array;
  /** Accepted bytes as last seen; -1 where bytes below them were not committed yet, so that any move of the mark counts. */
  readonly #acceptedBytes: Float64Array;
  /** How many entries of the request ask for each. */
  readonly #counts: Uint16Array;
  #missingBytes: number;
  /** An entry without a replica (an error, which answers at once) never waits; should one, any move wakes it. */
  readonly #isUnsure: boolean;

  constructor(entries: readonly LookedAt[], missingBytes: number) {
    const places = new Map<Replica, number>();
    for (const { replica } of entries)
      if (replica !== undefined && !places.has(replica)) places.set(replica, places.size);
    this.replicas = [...places.keys()];
    this.#highWatermarks = new Float64Array(places.size);
    this.#acceptedBytes = new Float64Array(places.size);
    this.#counts = new Uint16Array(places.size);
    this.#missingBytes = missingBytes;
    this.#isUnsure = entries.some(({ replica }) => replica === undefined);
    for (const { replica, highWatermark, acceptedBytes, isSettled } of entries) {
      const place = replica === undefined ? undefined : places.get(replica);
      if (place === undefined) continue;
      this.#highWatermarks[place] = highWatermark;
      this.#acceptedBytes[place] = isSettled ? acceptedBytes : -1;
      this.#counts[place] = (this.#counts[place] ?? 0) + 1;
    }
  }

  hasMoved(): boolean {
    return this.replicas.some((replica, place) => hasMovedFrom(replica, this.#highWatermarks[place] ?? -1));
  }

  /** The mark of this one moved. Never says no when a read would say yes: what was accepted since bounds what was committed since. */
  mayHaveEnough(replica: Replica): boolean {
    const place = this.replicas.indexOf(replica);
    const acceptedBytes = this.#acceptedBytes[place];
    if (acceptedBytes === undefined || acceptedBytes < 0 || this.#isUnsure || !replica.core.isLeader) return true;
    this.#missingBytes -= (replica.acceptedBytes - acceptedBytes) * (this.#counts[place] ?? 1);
    this.#acceptedBytes[place] = replica.acceptedBytes;
    return this.#missingBytes <= 0;
  }
}

/** A partition that was led here when its high watermark was this one has another one, or is led here no more. */
export function hasMovedFrom({ core }: Replica, highWatermark: number): boolean {
  return core.highWatermark !== highWatermark || !core.isLeader;
}
