// What a run has seen and what its checkers say, and how it waits: it stops for each look at a platter and at the first violation.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { CheckerSet } from "../checkers/checker-set.ts";
import type { Violation } from "../checkers/checker.ts";
import type { SimCluster } from "./cluster.ts";
import type { HomeOf } from "../checkers/fault-atlas.ts";
import { type HistoryEvent, partitionName } from "../checkers/history.ts";
import type { SimNode } from "./node.ts";
import type { TopicBoard } from "./workload/topics.ts";
import type { SimWorld } from "./world.ts";

export class RunLog {
  reads = 0;
  readonly #world: SimWorld;
  readonly #checkers: CheckerSet;
  /** Nodes whose disk a power loss has left, not looked at yet. */
  readonly #unprobed = new Set<SimNode>();

  constructor(world: SimWorld, homeOf: HomeOf) {
    this.#world = world;
    this.#checkers = new CheckerSet(homeOf);
  }

  get violations(): readonly Violation[] {
    return this.#checkers.violations;
  }

  get excusedLosses(): number {
    return this.#checkers.excusedLosses;
  }

  record(event: HistoryEvent): void {
    if (event.type === "read") this.reads++;
    if (this.#world.isTraced) this.#world.note("history", event.type, describeEvent(event));
    const before = this.#checkers.violations.length;
    this.#checkers.observe(event);
    for (const violation of this.#checkers.violations.slice(before)) this.#note(violation);
  }

  violated(violation: Violation): void {
    this.#checkers.violations.push(violation);
    this.#note(violation);
  }

  conclude(): void {
    this.#checkers.conclude();
  }

  #note({ invariant, message }: Violation): void {
    this.#world.note("", "violation", `invariant ${invariant}: ${message}`);
  }

  owesProbe(node: SimNode): void {
    this.#unprobed.add(node);
  }

  /** As the world's, but stops for each look at a platter, and at the first violation. */
  async runUntil(
    condition: () => boolean,
    untilMs: number,
    parts: { readonly cluster: SimCluster; readonly board: TopicBoard },
  ): Promise<boolean> {
    const { violations } = this.#checkers;
    for (;;) {
      const isDone = await this.#world.runUntil(
        () => this.#unprobed.size > 0 || violations.length > 0 || condition(),
        untilMs,
      );
      if (violations.length > 0) throw new Error("an invariant is broken");
      if (this.#unprobed.size === 0) return isDone;
      const nodes = [...this.#unprobed];
      this.#unprobed.clear();
      for (const node of nodes) await this.#probe(node, parts);
    }
  }

  async #probe(node: SimNode, { cluster, board }: { readonly cluster: SimCluster; readonly board: TopicBoard }) {
    const timeMs = this.#world.nowMs;
    const ends = await cluster.recoverCopyOf(node).catch((thrown: unknown) => asOttlaError(thrown));
    if (ends instanceof OttlaError) {
      if (!node.isSpoilt)
        this.record({ type: "start refused", timeMs, node: node.name, code: ends.code, reason: ends.message });
      return;
    }
    for (const claim of cluster.claimsOf(node)) {
      const { topicId, partition } = claim;
      const endOffset = ends.find((end) => end.topicId === topicId && end.partition === partition)?.endOffset ?? 0;
      if (endOffset < claim.durableEnd) {
        const message = `${claim.name}: ${node.name} took [0, ${claim.durableEnd}) for durable, its platter has ${endOffset}`;
        this.violated({ invariant: 16, message });
      }
    }
    for (const { name: topic, partitions } of board.live) {
      for (let partition = 0; partition < partitions; partition++) {
        const replicas = cluster.replicasOf(topic, partition);
        if (!cluster.isSingle && (replicas[0] !== node || replicas.length > 1)) continue;
        if (cluster.isLogSpoilt(node, partitionName({ topic, partition }))) continue;
        const endOffset = ends.find((end) => end.topic === topic && end.partition === partition)?.endOffset ?? 0;
        this.record({ type: "end", timeMs, source: "platter", topic, partition, endOffset });
      }
    }
  }
}

function describeEvent(event: HistoryEvent): string {
  const { type: _, timeMs: __, ...fields } = event;
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${describeValue(value)}`)
    .join(" ");
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return `${value.length} records`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
