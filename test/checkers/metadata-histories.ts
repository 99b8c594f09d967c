// Histories as sound metadata makes them: clients that create, delete, alter and look at a few names at once; every change takes effect at one
// moment, a deleted name becomes free a while later, and some clients never hear what came of it.
import type { Rng } from "../../src/base/rng.ts";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import type { MetadataEvent, MetadataResult, MetadataWish, TopicSeen } from "../../src/checkers/metadata-history.ts";

export interface Shape {
  readonly operations: number;
  readonly clients: number;
  readonly names: number;
  readonly unknownShare: number;
}

type Answer = { readonly result: MetadataResult } | { readonly code: string };

/** The metadata itself, one change after the other. */
class Metadata {
  readonly topics = new Map<string, TopicSeen>();
  configs: Record<string, string> = {};
  #ids = 0;

  /** Some of what is marked goes. */
  removeSome(rng: Rng): void {
    for (const [name, { isDeleting }] of this.topics) if (isDeleting && rng.chance(0.3)) this.topics.delete(name);
  }

  carryOut(wish: MetadataWish): Answer {
    const done: Answer = { result: { kind: "done" } };
    switch (wish.kind) {
      case "create topic": {
        if (this.topics.has(wish.topic)) return { code: "TOPIC_ALREADY_EXISTS" };
        const topicId = `id${++this.#ids}`;
        this.topics.set(wish.topic, { topic: wish.topic, topicId, isDeleting: false, configs: wish.configs });
        return { result: { kind: "created", topicId } };
      }
      case "delete topic": {
        const topic = this.topics.get(wish.topic);
        if (topic === undefined) return { code: "UNKNOWN_TOPIC_OR_PARTITION" };
        this.topics.set(wish.topic, { ...topic, isDeleting: true });
        return done;
      }
      case "alter topic configs": {
        const topic = this.topics.get(wish.topic);
        if (topic === undefined || topic.isDeleting) return { code: "UNKNOWN_TOPIC_OR_PARTITION" };
        this.topics.set(wish.topic, { ...topic, configs: applied(topic.configs, wish.changes) });
        return done;
      }
      case "alter broker configs":
        this.configs = applied(this.configs, wish.changes);
        return done;
      case "describe broker configs":
        return { result: { kind: "configs", configs: this.configs } };
      case "describe topic":
      case "list topics": {
        const isAsked = ({ topic }: TopicSeen): boolean => wish.kind === "list topics" || wish.topic === topic;
        return { result: { kind: "topics", topics: [...this.topics.values()].filter(isAsked) } };
      }
      default:
        return { result: { kind: "version", version: 1 } };
    }
  }
}

function applied(
  configs: Readonly<Record<string, string>>,
  changes: readonly { readonly key: string; readonly value: string | null }[],
): Record<string, string> {
  const after = { ...configs };
  for (const { key, value } of changes) {
    if (value === null) delete after[key];
    else after[key] = value;
  }
  return after;
}

function randomWish(rng: Rng, names: number): MetadataWish {
  const topic = `t${rng.below(names)}`;
  const value = String(1 + rng.below(5));
  switch (rng.below(12)) {
    case 0:
    case 1:
    case 2:
      return { kind: "create topic", topic, configs: rng.chance(0.5) ? {} : { size: value } };
    case 3:
    case 4:
      return { kind: "delete topic", topic };
    case 5:
      return { kind: "alter topic configs", topic, changes: [{ key: "size", value: rng.pick([value, null]) }] };
    case 6:
      return { kind: "alter broker configs", broker: "", changes: [{ key: "size", value }] };
    case 7:
      return { kind: "describe broker configs", broker: "" };
    case 8:
      return { kind: "list topics" };
    default:
      return { kind: "describe topic", topic };
  }
}

/** In the order in which everything became known. */
export function soundHistory(rng: Rng, { operations, clients, names, unknownShare }: Shape): MetadataEvent[] {
  const free = Array.from({ length: clients }, () => 0);
  const planned = Array.from({ length: operations }, (_, operation) => {
    const client = rng.below(clients);
    const invoked = (free[client] ?? 0) + 1 + rng.below(3);
    const effect = invoked + rng.below(10);
    const ended = effect + rng.below(10);
    free[client] = ended + 1;
    const isUnknown = rng.chance(unknownShare);
    // Some of what nobody hears of never happens, some happens late.
    const effectMs = isUnknown ? rng.pick([effect, effect + rng.below(100), Infinity]) : effect;
    return { operation, client, wish: randomWish(rng, names), invoked, effectMs, ended, isUnknown, tie: rng.u32() };
  });
  const metadata = new Metadata();
  const timed: { readonly timeMs: number; readonly event: MetadataEvent }[] = [];
  for (const each of planned.toSorted((left, right) => left.effectMs - right.effectMs || left.tie - right.tie)) {
    const { operation, client, wish, invoked, ended, effectMs, isUnknown } = each;
    metadata.removeSome(rng);
    const answer = effectMs === Infinity ? undefined : metadata.carryOut(wish);
    const base = { operation, process: `c${client}` };
    timed.push({ timeMs: invoked, event: { type: "metadata invoked", timeMs: invoked, ...base, wish } });
    timed.push({ timeMs: ended + 0.5, event: endOf({ operation, timeMs: ended, isUnknown }, answer) });
  }
  return timed.toSorted((left, right) => left.timeMs - right.timeMs).map(({ event }) => event);
}

function endOf(
  {
    operation,
    timeMs,
    isUnknown,
  }: { readonly operation: number; readonly timeMs: number; readonly isUnknown: boolean },
  answer: Answer | undefined,
): MetadataEvent {
  if (isUnknown || answer === undefined) return { type: "metadata unknown", timeMs, operation, reason: "lost" };
  if ("code" in answer) return { type: "metadata refused", timeMs, operation, code: answer.code };
  return { type: "metadata ok", timeMs, operation, result: answer.result };
}

/** One description that was answered with nothing shows another id, or nothing where there was a topic. */
export function withOneLie(rng: Rng, history: readonly MetadataEvent[]): HistoryEvent[] {
  const told = history.flatMap((event, index) =>
    event.type === "metadata ok" && event.result.kind === "topics" && event.result.topics.length > 0 ? [index] : [],
  );
  if (told.length === 0) return [...history];
  const at = rng.pick(told);
  return history.map((event, index) => {
    if (index !== at || event.type !== "metadata ok") return event;
    const old = { kind: "topics", topics: [] } as const;
    return { ...event, result: old };
  });
}
