// Gives leaderships back to first replicas that are in sync again, so that a restarted broker leads its share. A round costs what is led by another
// than its first replica.
import { decideBalance } from "../../metadata/controller.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type { MetadataQuorum } from "../quorum/types.ts";

export interface BalanceOptions {
  readonly isEnabled: boolean;
  readonly everyMs: number;
}

export interface BalancerDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "propose">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs work that nobody waits for. */
  readonly run: (work: Promise<unknown>) => void;
  /** It was not heard of lately. */
  readonly isQuiet: (nodeId: NodeId) => boolean;
}

/** A round moves at most these: each of them halts its producers for a moment. */
const MOVES_MAX = 1_000;
/** So long it must have been there. */
const STEADY_MS = 2_000;
/** D-8: a broker that gave leaderships away because its disk was behind is not given them back for so long. */
const REST_MS = 60_000;

export class Balancer {
  readonly #deps: BalancerDeps;
  readonly #options: BalanceOptions;
  /** From when on each may lead more; of one not named, from the beginning on. */
  readonly #notBeforeMs = new Map<NodeId, number>();
  #beganMs = 0;
  #lastMs = 0;
  #isUnderWay = false;

  constructor(deps: BalancerDeps, options: BalanceOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  begin(): void {
    const nowMs = this.#deps.clock.monoMs();
    this.#notBeforeMs.clear();
    this.#beganMs = nowMs;
    this.#lastMs = nowMs;
  }

  unfenced(nodeId: NodeId): void {
    this.#delay(nodeId, STEADY_MS);
  }

  movedAway(nodeId: NodeId): void {
    this.#delay(nodeId, REST_MS);
  }

  #delay(nodeId: NodeId, byMs: number): void {
    const untilMs = this.#deps.clock.monoMs() + byMs;
    this.#notBeforeMs.set(nodeId, Math.max(untilMs, this.#notBeforeMs.get(nodeId) ?? 0));
  }

  forget(nodeId: NodeId): void {
    this.#notBeforeMs.delete(nodeId);
  }

  tick(): void {
    const { clock, quorum, run } = this.#deps;
    const nowMs = clock.monoMs();
    if (!this.#options.isEnabled || this.#isUnderWay || nowMs - this.#lastMs < this.#options.everyMs) return;
    this.#lastMs = nowMs;
    const now = decideBalance(quorum.image, this.#wish(nowMs));
    if (now.kind === "refused" || now.records.length === 0) return;
    this.#isUnderWay = true;
    run(
      this.#balance().finally(() => {
        this.#isUnderWay = false;
      }),
    );
  }

  async #balance(): Promise<void> {
    const { quorum, clock, logger } = this.#deps;
    const decision = await quorum.propose((image) => decideBalance(image, this.#wish(clock.monoMs())));
    // Refused: the next round sees what is left to do.
    if (decision.kind === "refused") return;
    const moved = decision.records.reduce(
      (sum, record) => sum + (record.type === "partition-change" ? record.changes.length : 0),
      0,
    );
    if (moved > 0) logger.info("leaders_balanced", { partitions: moved });
  }

  #wish(nowMs: number): Parameters<typeof decideBalance>[1] {
    const isSteady = (nodeId: NodeId): boolean =>
      nowMs >= (this.#notBeforeMs.get(nodeId) ?? this.#beganMs + STEADY_MS) && !this.#deps.isQuiet(nodeId);
    return { max: MOVES_MAX, isSteady };
  }
}
