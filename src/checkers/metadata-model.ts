// What topics and configuration promise, as objects of the linearizability checker: one per topic name, one per broker configuration, one for
// metadata.version. A topic that is marked for deletion goes at a moment that nobody is told: such a state stands for both until somebody sees.
import type { ConfigChange, ConfigValues, TopicSeen } from "./metadata-history.ts";
import type { Model } from "./linearizability.ts";

export type TopicOp =
  | { readonly kind: "create"; readonly configs: ConfigValues }
  | { readonly kind: "delete" }
  | { readonly kind: "alter"; readonly changes: readonly ConfigChange[] }
  | { readonly kind: "describe" };

export type TopicResult =
  | { readonly kind: "created"; readonly topicId: string }
  | { readonly kind: "done" }
  | { readonly kind: "exists" }
  | { readonly kind: "missing" }
  | { readonly kind: "seen"; readonly topic: TopicSeen };

interface Topic {
  /** null: a creation that nobody was told of made it. */
  readonly id: string | null;
  /** True: it is marked for deletion, and may be gone. */
  readonly isDeleting: boolean;
  readonly configs: ConfigValues;
}

export interface TopicState {
  readonly topic: Topic | null;
  /** Ids of topics that are gone, of those that nobody was told to have created: they never come back either. */
  readonly past: readonly string[];
}

/** `told`: ids that creations were answered with. Another id can only come from a creation of unknown outcome. */
export function topicModel(told: ReadonlySet<string>): Model<TopicState, TopicOp, TopicResult> {
  return {
    initial: { topic: null, past: [] },
    step: (state, op, result) => {
      switch (op.kind) {
        case "create":
          return created(state, op.configs, result, told);
        case "delete":
          return deleted(state, result, told);
        case "alter":
          return altered(state, op.changes, result);
        case "describe":
          return described(state, result, told);
      }
    },
    keyOf: ({ topic, past }) => (topic === null ? `absent ${past.join()}` : `${keyOfTopic(topic)} ${past.join()}`),
    isRead: (op, { kind }) => op.kind === "describe" || kind === "exists" || kind === "missing",
    effectOf: (op) => JSON.stringify(op),
  };
}

function keyOfTopic({ id, isDeleting, configs }: Topic): string {
  const set = Object.keys(configs)
    .sort()
    .map((key) => `${key}=${configs[key]}`);
  return `${id ?? "some id"}${isDeleting ? " going" : ""} {${set.join()}}`;
}

const missing = (topic: Topic | null): boolean => topic === null || topic.isDeleting;

function created(
  state: TopicState,
  configs: ConfigValues,
  result: TopicResult | undefined,
  told: ReadonlySet<string>,
): TopicState | null {
  if (result?.kind === "exists") return state.topic === null ? null : state;
  if (!missing(state.topic)) return null;
  const { past } = gone(state, told);
  if (result === undefined) return { topic: { id: null, isDeleting: false, configs }, past };
  if (result.kind !== "created" || past.includes(result.topicId) || state.topic?.id === result.topicId) return null;
  return { topic: { id: result.topicId, isDeleting: false, configs }, past };
}

/** Marking what is marked already is done, too. */
function deleted(state: TopicState, result: TopicResult | undefined, told: ReadonlySet<string>): TopicState | null {
  const { topic, past } = state;
  if (result?.kind === "missing") return missing(topic) ? gone(state, told) : null;
  if (topic === null || (result !== undefined && result.kind !== "done")) return null;
  return topic.isDeleting ? state : { topic: { ...topic, isDeleting: true }, past };
}

/** Refused also for what is marked. */
function altered(
  state: TopicState,
  changes: readonly ConfigChange[],
  result: TopicResult | undefined,
): TopicState | null {
  const { topic, past } = state;
  if (result?.kind === "missing") return missing(topic) ? state : null;
  if (topic === null || topic.isDeleting || (result !== undefined && result.kind !== "done")) return null;
  return { topic: { ...topic, configs: changed(topic.configs, changes) }, past };
}

function described(state: TopicState, result: TopicResult | undefined, told: ReadonlySet<string>): TopicState | null {
  const { topic, past } = state;
  if (result === undefined) return state;
  if (result.kind === "missing") return missing(topic) ? gone(state, told) : null;
  if (result.kind !== "seen" || topic === null) return null;
  const seen = result.topic;
  if (seen.isDeleting !== topic.isDeleting || !areEqual(seen.configs, topic.configs)) return null;
  if (topic.id === seen.topicId) return state;
  if (topic.id !== null || told.has(seen.topicId) || past.includes(seen.topicId)) return null;
  return { topic: { ...topic, id: seen.topicId }, past };
}

function gone({ topic, past }: TopicState, told: ReadonlySet<string>): TopicState {
  const id = topic?.id ?? null;
  return { topic: null, past: id === null || told.has(id) ? past : [...past, id] };
}

export type ConfigOp =
  | { readonly kind: "alter"; readonly changes: readonly ConfigChange[] }
  | { readonly kind: "describe" };

export const CONFIG_MODEL: Model<ConfigValues, ConfigOp, ConfigValues> = {
  initial: {},
  step: (state, op, result) => {
    if (op.kind === "alter") return changed(state, op.changes);
    return result === undefined || areEqual(result, state) ? state : null;
  },
  keyOf: (state) =>
    Object.keys(state)
      .sort()
      .map((key) => `${key}=${state[key]}`)
      .join(),
  isRead: (op) => op.kind === "describe",
  effectOf: (op) => JSON.stringify(op),
};

export type VersionOp = { readonly kind: "raise"; readonly version: number } | { readonly kind: "describe" };

export function versionModel(initial: number): Model<number, VersionOp, number> {
  return {
    initial,
    step: (state, op, result) => {
      if (op.kind === "raise") return op.version < state ? null : op.version;
      return result === undefined || result === state ? state : null;
    },
    keyOf: String,
    isRead: (op) => op.kind === "describe",
    effectOf: (op) => JSON.stringify(op),
  };
}

function changed(configs: ConfigValues, changes: readonly ConfigChange[]): ConfigValues {
  const after: Record<string, string> = { ...configs };
  for (const { key, value } of changes) {
    if (value === null) delete after[key];
    else after[key] = value;
  }
  return after;
}

function areEqual(left: ConfigValues, right: ConfigValues): boolean {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}
