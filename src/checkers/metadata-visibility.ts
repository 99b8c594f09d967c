// Invariant 40: what was created becomes visible on every node, what was deleted never comes back, a name that is used again has another
// id and shows nothing of its predecessor. Rests on what nodes say without a read barrier: an answer may be old, but each belongs to one
// place in the metadata log, and at one place there is one truth.
import type { HistoryEvent } from "./history.ts";
import type { MarkMet, MetadataHealed, MetadataInvoked, MetadataSeen, TopicSeen } from "./metadata-history.ts";
import type { Checker, Violation } from "./checker.ts";

/** After the heal and after it was acknowledged, for every node to know of a change. */
export const VISIBLE_WITHIN_MS = 8_000;

/** A creation or deletion that was not refused. */
interface Change {
  readonly topic: string;
  readonly invokedMs: number;
  /** Infinity: not known, it may still happen. */
  readonly endedMs: number;
  /** Of a creation that said so. */
  readonly topicId: string | undefined;
}

export class MetadataVisibilityChecker implements Checker {
  readonly invariant = 40;
  readonly name = "visible, gone, never again";
  readonly #visibleWithinMs: number;
  readonly #asked = new Map<number, MetadataInvoked>();
  readonly #creations: Change[] = [];
  readonly #deletions: Change[] = [];
  /** Name of each id, from answers and from creations. */
  readonly #names = new Map<string, string>();
  /** Per name: what it was at each place in the log that was shown; null = absent. */
  readonly #truths = new Map<string, Map<number, TopicSeen | null>>();
  /** Per node: answers that were further than all before, in the order in which they came. */
  readonly #advances = new Map<number, { readonly end: number; readonly timeMs: number }[]>();
  /** Id of the topic by which each mark was acknowledged or shown. */
  readonly #marks = new Map<string, string>();
  readonly #late: MetadataSeen[] = [];
  /** Since when each node was whole, by the heals told. */
  readonly #healedMs = new Map<number, number>();
  #lastHealed: MetadataHealed | undefined;

  constructor(options: { readonly visibleWithinMs?: number } = {}) {
    this.#visibleWithinMs = options.visibleWithinMs ?? VISIBLE_WITHIN_MS;
  }

  observe(event: HistoryEvent): Violation | undefined {
    switch (event.type) {
      case "metadata invoked":
        this.#asked.set(event.operation, event);
        return undefined;
      case "metadata ok": {
        const topicId = event.result.kind === "created" ? event.result.topicId : undefined;
        this.#ended(event.operation, event.timeMs, topicId);
        if (topicId === undefined) return undefined;
        const { length } = this.#creations.filter((other) => other.topicId === topicId);
        return length > 1 ? broken(`two creations were answered with the id ${topicId}`) : undefined;
      }
      case "metadata unknown":
        this.#ended(event.operation, Infinity, undefined);
        return undefined;
      case "metadata refused":
      case "metadata failed":
        this.#asked.delete(event.operation);
        return undefined;
      case "metadata seen":
        return this.#seen(event);
      case "metadata healed":
        this.#lastHealed = event;
        for (const node of event.nodes) if (!this.#healedMs.has(node)) this.#healedMs.set(node, event.timeMs);
        return undefined;
      case "mark acknowledged":
      case "mark read":
        return this.#marked(event);
      default:
        return undefined;
    }
  }

  conclude(): Violation | undefined {
    for (const { operation } of [...this.#asked.values()]) this.#ended(operation, Infinity, undefined);
    for (const topic of this.#truths.keys()) {
      const found = this.#comesBack(topic);
      if (found !== undefined) return found;
    }
    return this.#notAsked() ?? this.#notVisible() ?? this.#notGone();
  }

  #ended(operation: number, endedMs: number, topicId: string | undefined): void {
    const asked = this.#asked.get(operation);
    this.#asked.delete(operation);
    if (asked?.wish.kind !== "create topic" && asked?.wish.kind !== "delete topic") return;
    const change = { topic: asked.wish.topic, invokedMs: asked.timeMs, endedMs, topicId };
    (asked.wish.kind === "create topic" ? this.#creations : this.#deletions).push(change);
  }

  // --- one truth at each place, and no node goes back

  #seen(event: MetadataSeen): Violation | undefined {
    if (this.#isWhole(event, 0)) this.#late.push(event);
    for (const topic of event.asked) {
      const shown = event.topics.find((each) => each.topic === topic) ?? null;
      const found = this.#contradicts(topic, shown, event) ?? this.#renamed(topic, shown, event);
      if (found !== undefined) return found;
    }
    return this.#goesBack(event);
  }

  #contradicts(topic: string, shown: TopicSeen | null, { node, metadataEnd }: MetadataSeen): Violation | undefined {
    const truths = this.#truths.get(topic) ?? new Map<number, TopicSeen | null>();
    this.#truths.set(topic, truths);
    const known = truths.get(metadataEnd);
    if (known === undefined) truths.set(metadataEnd, shown);
    else if (textOf(known) !== textOf(shown))
      return broken(`at ${metadataEnd} ${topic} is ${textOf(known)}, but node ${node} says ${textOf(shown)}`);
    return undefined;
  }

  #renamed(topic: string, shown: TopicSeen | null, { node }: MetadataSeen): Violation | undefined {
    if (shown === null) return undefined;
    const name = this.#names.get(shown.topicId);
    this.#names.set(shown.topicId, topic);
    if (name === undefined || name === topic) return undefined;
    return broken(`node ${node} shows the id ${shown.topicId} of ${name} as ${topic}`);
  }

  #goesBack({ node, invokedMs, timeMs, metadataEnd }: MetadataSeen): Violation | undefined {
    const advances = this.#advances.get(node) ?? [];
    this.#advances.set(node, advances);
    const before = advances.findLast((each) => each.timeMs < invokedMs);
    if (before !== undefined && before.end > metadataEnd) {
      const when = `at ${Math.round(before.timeMs)} ms`;
      return broken(`node ${node} showed the metadata up to ${before.end} ${when}, later only up to ${metadataEnd}`);
    }
    if (metadataEnd > (advances.at(-1)?.end ?? -1)) advances.push({ end: metadataEnd, timeMs });
    return undefined;
  }

  // --- along the log: never again

  #comesBack(topic: string): Violation | undefined {
    const places = [...(this.#truths.get(topic) ?? [])].sort(([left], [right]) => left - right);
    const past = new Map<string, number>();
    let current: TopicSeen | null = null;
    for (const [place, shown] of places) {
      if (current !== null && shown?.topicId !== current.topicId) past.set(current.topicId, place);
      if (shown !== null && past.has(shown.topicId))
        return broken(
          `${topic} of id ${shown.topicId} was gone at ${past.get(shown.topicId)}, and is back at ${place}`,
        );
      if (shown !== null && shown.topicId === current?.topicId && current.isDeleting && !shown.isDeleting)
        return broken(`${topic} of id ${shown.topicId} was being deleted before ${place}, and is not at ${place}`);
      current = shown;
    }
    return undefined;
  }

  // --- after the heal

  /** It was asked long enough after its heal and after a change that was acknowledged at `changedMs`. */
  #isWhole({ node, invokedMs }: MetadataSeen, changedMs: number): boolean {
    const healedMs = this.#healedMs.get(node) ?? Infinity;
    return invokedMs >= Math.max(healedMs, changedMs) + this.#visibleWithinMs;
  }

  #areAllWhole({ invokedMs }: MetadataSeen): boolean {
    return invokedMs >= (this.#lastHealed?.timeMs ?? Infinity) + this.#visibleWithinMs;
  }

  /** Without an answer of each node that was mended at last nothing is proved. */
  #notAsked(): Violation | undefined {
    const { timeMs, nodes } = this.#lastHealed ?? { timeMs: 0, nodes: [] };
    const silent = nodes.filter(
      (node) => !this.#late.some((each) => each.node === node && this.#isWhole(each, timeMs)),
    );
    if (silent.length === 0) return undefined;
    return broken(`node ${silent.join(" and ")} said nothing ${this.#visibleWithinMs} ms after the heal or later`);
  }

  #lateAnswers(changedMs: number): readonly MetadataSeen[] {
    return this.#late.filter((answer) => this.#isWhole(answer, changedMs));
  }

  #notVisible(): Violation | undefined {
    for (const { topic, topicId, invokedMs, endedMs } of this.#creations) {
      if (topicId === undefined) continue;
      // A deletion that was not over when the creation began may have met its topic.
      if (this.#deletions.some((other) => other.topic === topic && other.endedMs >= invokedMs)) continue;
      for (const answer of this.#lateAnswers(endedMs)) {
        if (!answer.asked.includes(topic)) continue;
        const shown = answer.topics.find((each) => each.topic === topic) ?? null;
        if (shown?.topicId === topicId && !shown.isDeleting) continue;
        return broken(`${topic} was created with the id ${topicId}, but node ${answer.node} shows ${textOf(shown)}`);
      }
    }
    return undefined;
  }

  #notGone(): Violation | undefined {
    for (const { topic, invokedMs, endedMs } of this.#deletions) {
      if (endedMs === Infinity) continue;
      const met = this.#creations.filter((each) => each.topic === topic && each.endedMs < invokedMs);
      const ids = new Set(met.map(({ topicId }) => topicId));
      for (const answer of this.#lateAnswers(endedMs)) {
        const shown = answer.topics.find((each) => each.topic === topic);
        // A deletion ends when each replica has said that its log is gone, also those on nodes that are mended last.
        const isWaiting = shown?.isDeleting === true && !this.#areAllWhole(answer);
        if (shown !== undefined && ids.has(shown.topicId) && !isWaiting)
          return broken(`${topic} was deleted, but node ${answer.node} still shows ${textOf(shown)}`);
      }
    }
    return undefined;
  }

  // --- what is in a topic

  #marked({ mark, topicId, type, topic, process }: MarkMet): Violation | undefined {
    const known = this.#marks.get(mark);
    this.#marks.set(mark, topicId);
    if (known === undefined || known === topicId) return undefined;
    const how = type === "mark read" ? `${process} reads it from` : "it is acknowledged by";
    return broken(`record ${mark} belongs to the topic of id ${known}; ${how} ${topic} of id ${topicId}`);
  }
}

function broken(message: string): Violation {
  return { invariant: 40, message };
}

function textOf(shown: TopicSeen | null): string {
  if (shown === null) return "absent";
  const { topicId, isDeleting, configs } = shown;
  const set = Object.keys(configs)
    .sort()
    .map((key) => `${key}=${configs[key]}`);
  return `${topicId}${isDeleting ? ", being deleted" : ""} {${set.join()}}`;
}
