// All checkers of this build, over one history.
import { FaultAtlas, type HomeOf } from "./fault-atlas.ts";
import { type ClientVerdict, type HistoryEvent, partitionName } from "./history.ts";
import { BoundedChecker } from "./bounded.ts";
import type { Checker, Violation } from "./checker.ts";
import { CompactionChecker } from "./compaction.ts";
import { CommittedUniquenessChecker } from "./committed-uniqueness.ts";
import { ContiguousOffsetsChecker } from "./contiguous-offsets.ts";
import { DurabilityChecker } from "./durability.ts";
import { DurableTruthChecker } from "./durable-truth.ts";
import { FencingChecker } from "./fencing.ts";
import { FailStopChecker } from "./fail-stop.ts";
import { MetadataLinearizabilityChecker } from "./metadata-linearizability.ts";
import { MetadataVisibilityChecker } from "./metadata-visibility.ts";
import { MonotonicEndChecker } from "./monotonic-end.ts";
import { NoCorruptionChecker } from "./no-corruption.ts";
import { NoPhantomChecker } from "./no-phantom.ts";
import { ReadBoundsChecker } from "./read-bounds.ts";
import { SendOrderChecker } from "./send-order.ts";

/** Keeps the first violations of each invariant, in the order in which they were found. */
const VIOLATIONS_MAX = 20;

export class CheckerSet {
  readonly violations: Violation[] = [];
  readonly #atlas: FaultAtlas;
  readonly #checkers: readonly Checker[];

  constructor(homeOf: HomeOf = () => undefined) {
    this.#atlas = new FaultAtlas(homeOf);
    this.#checkers = [
      new DurabilityChecker(this.#atlas),
      new DurableTruthChecker(),
      new CommittedUniquenessChecker(),
      new ContiguousOffsetsChecker(),
      new CompactionChecker(),
      new ReadBoundsChecker(),
      new MonotonicEndChecker(),
      new NoPhantomChecker(),
      new NoCorruptionChecker(),
      new SendOrderChecker(),
      new FencingChecker(),
      new FailStopChecker(),
      new BoundedChecker(),
      new MetadataLinearizabilityChecker(),
      new MetadataVisibilityChecker(),
    ];
  }

  /** Losses that were found and that the fault atlas allows. */
  get excusedLosses(): number {
    return this.#atlas.excused;
  }

  observe(event: HistoryEvent): void {
    if (event.type === "fault" || event.type === "partition lost" || event.type === "leadership")
      this.#atlas.observe(event);
    if (this.#atlas.isVoid(event) && event.type !== "partition lost") return;
    if (event.type === "verdict") this.#take({ invariant: event.invariant, message: verdictOf(event) });
    else for (const checker of this.#checkers) this.#take(checker.observe(event));
  }

  /** At the end of the history, once. */
  conclude(): void {
    for (const checker of this.#checkers) this.#take(checker.conclude?.());
  }

  #take(violation: Violation | undefined): void {
    if (violation !== undefined && this.violations.length < VIOLATIONS_MAX) this.violations.push(violation);
  }
}

function verdictOf({ process, topic, partition, message }: ClientVerdict): string {
  const where = topic === undefined || partition === undefined ? "" : ` at ${partitionName({ topic, partition })}`;
  return `${process}${where}: ${message}`;
}
