// Invariant 38: changes and barrier reads of the metadata are linearizable: topics one by one (each name is an object of its own), the
// configuration of each broker, metadata.version. Judged at the end, since a later event may explain an earlier one.
import type { HistoryEvent } from "./history.ts";
import type { ConfigValues, MetadataInvoked, MetadataResult, MetadataWish, TopicSeen } from "./metadata-history.ts";
import type { Checker, Violation } from "./checker.ts";
import { checkLinearizability, type Model, type Operation, type SearchBounds } from "./linearizability.ts";
import {
  CONFIG_MODEL,
  type ConfigOp,
  topicModel,
  type TopicOp,
  type TopicResult,
  versionModel,
} from "./metadata-model.ts";
import type { VersionOp } from "./metadata-model.ts";

/** Refusals that tell what the controller found; every other one says nothing about the state. */
const TELLING: Readonly<Record<string, "exists" | "missing">> = {
  TOPIC_ALREADY_EXISTS: "exists",
  UNKNOWN_TOPIC_OR_PARTITION: "missing",
};
/** Operations that a message shows. */
const SHOWN_MAX = 12;

type Ended =
  | { readonly kind: "ok"; readonly result: MetadataResult; readonly ended: number }
  | { readonly kind: "refused"; readonly code: string; readonly ended: number }
  | { readonly kind: "failed" }
  | { readonly kind: "unknown" };

interface Asked {
  readonly event: MetadataInvoked;
  readonly invoked: number;
  end: Ended;
}

export interface MetadataLinearizabilityOptions {
  readonly bounds?: SearchBounds;
  /** metadata.version of the new cluster. Default 1. */
  readonly firstVersion?: number;
}

export class MetadataLinearizabilityChecker implements Checker {
  readonly invariant = 38;
  readonly name = "linearizable metadata";
  readonly #options: MetadataLinearizabilityOptions;
  readonly #asked = new Map<number, Asked>();
  #position = 0;

  constructor(options: MetadataLinearizabilityOptions = {}) {
    this.#options = options;
  }

  /** Operations that ended with an answer which has to be explained. */
  get judged(): number {
    return [...this.#asked.values()].filter(({ end }) => end.kind === "ok" || end.kind === "refused").length;
  }

  observe(event: HistoryEvent): undefined {
    const position = this.#position++;
    switch (event.type) {
      case "metadata invoked":
        this.#asked.set(event.operation, { event, invoked: position, end: { kind: "unknown" } });
        return;
      case "metadata ok":
        return this.#end(event.operation, { kind: "ok", result: event.result, ended: position });
      case "metadata refused":
        return this.#end(event.operation, { kind: "refused", code: event.code, ended: position });
      case "metadata failed":
        return this.#end(event.operation, { kind: "failed" });
      default:
        return;
    }
  }

  #end(operation: number, end: Ended): undefined {
    const asked = this.#asked.get(operation);
    if (asked !== undefined) asked.end = end;
  }

  conclude(): Violation | undefined {
    for (const topic of this.#topics()) {
      const found = this.#judge(`topic ${topic}`, topicModel(this.#told()), this.#ofTopic(topic));
      if (found !== undefined) return found;
    }
    for (const broker of this.#brokers()) {
      const owner = broker === "" ? "the cluster" : `broker ${broker}`;
      const found = this.#judge(`configuration of ${owner}`, CONFIG_MODEL, this.#ofBroker(broker));
      if (found !== undefined) return found;
    }
    return this.#judge("metadata.version", versionModel(this.#options.firstVersion ?? 1), this.#ofVersion());
  }

  #judge<State, Op, Result>(
    what: string,
    model: Model<State, Op, Result>,
    operations: readonly Operation<Op, Result>[],
  ): Violation | undefined {
    const verdict = checkLinearizability(model, operations, this.#options.bounds);
    switch (verdict.kind) {
      case "linearizable":
        return undefined;
      case "undecided":
        return { invariant: 38, message: `${what}: not decided whether linearizable (${verdict.reason})` };
      case "not linearizable": {
        const { at, states } = verdict;
        const shown = operations
          .filter((each) => each.outcome !== "failed" && each.invoked <= at.ended)
          .sort((left, right) => moment(left) - moment(right))
          .slice(-SHOWN_MAX)
          .map(describe);
        const where = states.length === 0 ? "" : `; before it: ${states.join(" or ")}`;
        return {
          invariant: 38,
          message: `${what}: no order explains ${describe(at)}${where}; of ${operations.length} operations the last ones up to there:\n  ${shown.join("\n  ")}`,
        };
      }
    }
  }

  // --- from the history to one object's operations

  *#each(): Generator<Asked> {
    yield* this.#asked.values();
  }

  #topics(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const { event } of this.#each()) if ("topic" in event.wish) names.add(event.wish.topic);
    return names;
  }

  #brokers(): ReadonlySet<string> {
    const names = new Set<string>();
    for (const { event } of this.#each()) if ("broker" in event.wish) names.add(event.wish.broker);
    return names;
  }

  #told(): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const { end } of this.#each())
      if (end.kind === "ok" && end.result.kind === "created") ids.add(end.result.topicId);
    return ids;
  }

  #ofTopic(topic: string): Operation<TopicOp, TopicResult>[] {
    return this.#operations(
      (wish) => topicOpOf(wish, topic),
      (result) => topicResultOf(result, topic),
      (code) => (TELLING[code] === undefined ? undefined : { kind: TELLING[code] }),
    );
  }

  #ofBroker(broker: string): Operation<ConfigOp, ConfigValues>[] {
    const opOf = (wish: MetadataWish): ConfigOp | undefined => {
      if (!("broker" in wish) || wish.broker !== broker) return undefined;
      return wish.kind === "alter broker configs" ? { kind: "alter", changes: wish.changes } : { kind: "describe" };
    };
    return this.#operations(opOf, (result) => (result.kind === "configs" ? result.configs : {}));
  }

  #ofVersion(): Operation<VersionOp, number>[] {
    const opOf = (wish: MetadataWish): VersionOp | undefined => {
      if (wish.kind === "raise metadata version") return { kind: "raise", version: wish.version };
      return wish.kind === "describe metadata version" ? { kind: "describe" } : undefined;
    };
    return this.#operations(opOf, (result) => (result.kind === "version" ? result.version : 0));
  }

  #operations<Op, Result>(
    opOf: (wish: MetadataWish) => Op | undefined,
    resultOf: (result: MetadataResult) => Result,
    refusalOf: (code: string) => Result | undefined = () => undefined,
  ): Operation<Op, Result>[] {
    const operations: Operation<Op, Result>[] = [];
    for (const { event, invoked, end } of this.#each()) {
      const op = opOf(event.wish);
      if (op === undefined || end.kind === "failed") continue;
      if (end.kind === "unknown") {
        operations.push({ outcome: "unknown", op, invoked });
        continue;
      }
      const result = end.kind === "ok" ? resultOf(end.result) : refusalOf(end.code);
      if (result !== undefined) operations.push({ outcome: "ok", op, invoked, ended: end.ended, result });
    }
    return operations;
  }
}

function topicOpOf(wish: MetadataWish, topic: string): TopicOp | undefined {
  if (wish.kind === "list topics") return { kind: "describe" };
  if (!("topic" in wish) || wish.topic !== topic) return undefined;
  switch (wish.kind) {
    case "create topic":
      return { kind: "create", configs: wish.configs };
    case "delete topic":
      return { kind: "delete" };
    case "alter topic configs":
      return { kind: "alter", changes: wish.changes };
    case "describe topic":
      return { kind: "describe" };
  }
}

function topicResultOf(result: MetadataResult, topic: string): TopicResult {
  if (result.kind === "created") return result;
  if (result.kind !== "topics") return { kind: "done" };
  const seen: TopicSeen | undefined = result.topics.find((each) => each.topic === topic);
  return seen === undefined ? { kind: "missing" } : { kind: "seen", topic: seen };
}

function moment(operation: Operation<unknown, unknown>): number {
  if (operation.outcome === "failed") return 0;
  return operation.outcome === "ok" ? operation.ended : operation.invoked;
}

function describe(operation: Operation<unknown, unknown>): string {
  if (operation.outcome === "failed") return "failed";
  const { op, invoked } = operation;
  if (operation.outcome === "unknown") return `${JSON.stringify(op)} of unknown outcome (from ${invoked})`;
  return `${JSON.stringify(op)} -> ${JSON.stringify(operation.result)} (${invoked} to ${operation.ended})`;
}
