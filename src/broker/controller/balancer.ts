// Gives leaderships back to first replicas that are in sync again, so that a restarted broker leads its share, and takes them from brokers whose disks
// are full. A round costs what is led by another than its first replica, and what brokers with a full disk have.
import { type Decision, decideBalance, decideRelief } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
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
  /** Brokers that take nothing for want of space, as they told. */
  readonly full: () => ReadonlySet<NodeId>;
}

/** A round moves at most these: each of them halts its producers for a moment. */
const MOVES_MAX = 1_000;
/** So long it must have been there. */
const STEADY_MS = 2_000;
/** A broker that gave leaderships away because its disk was behind (D-8), or full, is not given them back for so long. */
const REST_MS = 60_000;
/** Its partitions take nothing meanwhile. */
const RELIEF_EVERY_MS = 500;

export class Balancer {
  readonly #deps: BalancerDeps;
  readonly #options: BalanceOptions;
  /** From when on each may lead more; of one not named, from the beginning on. */
  readonly #notBeforeMs = new Map<NodeId, number>();
  #beganMs = 0;
  #lastMs = 0;
  #relievedMs = 0;
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
    const { clock, full } = this.#deps;
    const nowMs = clock.monoMs();
    if (full().size > 0 && nowMs - this.#relievedMs >= RELIEF_EVERY_MS) {
      this.#relievedMs = nowMs;
      this.#move("leaders_relieved", (image) => this.#relief(image));
    }
    if (!this.#options.isEnabled || nowMs - this.#lastMs < this.#options.everyMs) return;
    this.#lastMs = nowMs;
    this.#move("leaders_balanced", (image) => decideBalance(image, this.#wish(clock.monoMs())));
  }

  #move(event: string, decide: (image: MetadataImage) => Decision): void {
    const { quorum, run } = this.#deps;
    if (this.#isUnderWay) return;
    const now = decide(quorum.image);
    if (now.kind === "refused" || now.records.length === 0) return;
    this.#isUnderWay = true;
    run(
      this.#propose(event, decide).finally(() => {
        this.#isUnderWay = false;
      }),
    );
  }

  async #propose(event: string, decide: (image: MetadataImage) => Decision): Promise<void> {
    const { quorum, logger } = this.#deps;
    const decision = await quorum.propose(decide);
    // Refused: the next round sees what is left to do.
    if (decision.kind === "refused") return;
    const moved = decision.records.reduce(
      (sum, record) => sum + (record.type === "partition-change" ? record.changes.length : 0),
      0,
    );
    if (moved > 0) logger.info(event, { partitions: moved });
  }

  #relief(image: MetadataImage): Decision {
    const { full, isQuiet } = this.#deps;
    const them = full();
    for (const nodeId of them) this.movedAway(nodeId);
    return decideRelief(image, {
      max: MOVES_MAX,
      full: them,
      isFit: (nodeId) => !them.has(nodeId) && !isQuiet(nodeId),
    });
  }

  #wish(nowMs: number): Parameters<typeof decideBalance>[1] {
    const isSteady = (nodeId: NodeId): boolean =>
      nowMs >= (this.#notBeforeMs.get(nodeId) ?? this.#beganMs + STEADY_MS) && !this.#deps.isQuiet(nodeId);
    return { max: MOVES_MAX, isSteady };
  }
}
