// What an attack by cases needs, whichever kind they are of.
import type { Control } from "./control.ts";
import type { Counts } from "./raw-peer.ts";
import type { Knowledge } from "./samples.ts";

export interface CaseRun {
  readonly address: string;
  readonly known: Knowledge;
  readonly counts: Counts;
  readonly seed: number;
  /** Which cases, in this order. */
  readonly indices: Iterator<number>;
  /** Each on connections of its own. */
  readonly atOnce: number;
  /** Those that are under way: a fault belongs to one of them. */
  readonly underWay: Set<string>;
  readonly control: Control;
  isOver(): boolean;
}
