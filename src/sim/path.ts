// One direction between two machines: how good it is, and whether anything gets through. Cuts are of directions, so that a
// machine can be heard and hear nothing (N4).
import type { LinkQuality } from "./pipe.ts";

/** Who waits for a path to be open again. */
export interface Traveller {
  pathOpened(): void;
}

export class Path {
  readonly from: string;
  readonly to: string;
  /** Raised at each cut, so that who waits knows whether it is still the same one. */
  cuts = 0;
  readonly #base: () => LinkQuality;
  readonly #waiting = new Set<Traveller>();
  #slow: LinkQuality | undefined;
  /** Partitions that cut it: it is open again when the last one ends. */
  #cutters = 0;

  constructor(from: string, to: string, base: () => LinkQuality) {
    this.from = from;
    this.to = to;
    this.#base = base;
  }

  get isCut(): boolean {
    return this.#cutters > 0;
  }

  get quality(): LinkQuality {
    return this.#slow ?? this.#base();
  }

  /** N5; undefined: as good as any. Applies to what is sent from now on. */
  setQuality(quality: LinkQuality | undefined): void {
    this.#slow = quality;
  }

  cut(): void {
    if (this.#cutters++ === 0) this.cuts++;
  }

  mend(): void {
    if (this.#cutters > 0 && --this.#cutters === 0) this.#open();
  }

  heal(): void {
    this.#slow = undefined;
    if (this.#cutters === 0) return;
    this.#cutters = 0;
    this.#open();
  }

  #open(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const traveller of waiting) traveller.pathOpened();
  }

  /** Once, when it is mended. */
  whenOpen(traveller: Traveller): void {
    this.#waiting.add(traveller);
  }
}
