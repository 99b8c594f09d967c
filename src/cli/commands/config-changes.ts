// What `topic alter` and `broker alter` have in common: the flags that say what to change, and a table of settings.
import type { ConfigChanges, ConfigInfo } from "../../client/types.ts";
import { CLEANUP, CONFIG_WORDS, wordValue } from "../../model/config-values.ts";
import type { Output } from "../output.ts";
import { counted, parsePair, UsageError } from "../values.ts";

export interface AlterFlags {
  readonly config?: readonly string[];
  readonly deleteConfig?: readonly string[];
  readonly dryRun?: boolean;
}

/** A key is changed once: set or taken away. */
export function changesOf(flags: AlterFlags): ConfigChanges {
  const pairs = (flags.config ?? []).map((text) => parsePair(text, "-c"));
  const removals = (flags.deleteConfig ?? []).map((key) => [key, null] as const);
  const all = [...pairs, ...removals];
  if (all.length === 0) throw new UsageError("nothing to change", "give --config key=value or --delete-config key");
  return eachOnce(all);
}

/** Of two values for a key nobody can say which is meant. */
export function eachOnce<V>(settings: readonly (readonly [key: string, value: V])[]): Record<string, V> {
  const found = new Map<string, V>();
  for (const [key, value] of settings) {
    if (found.has(key)) throw new UsageError(`${key} is given twice`);
    found.set(key, value);
  }
  return Object.fromEntries(found);
}

/** "2 settings altered", or what would be, and what comes of it that cannot be taken back. */
export function alteredText(changes: ConfigChanges, isDryRun: boolean): string {
  const count = counted(Object.keys(changes).length, "setting");
  return `${count} ${isDryRun ? "would be altered" : "altered"}${lossRemark(changes)}`;
}

/** Nobody says here what the policy was before; where it had compact nothing without a key is there. */
function lossRemark(changes: ConfigChanges): string {
  const policy = changes["cleanup.policy"];
  const bits = typeof policy === "string" ? wordValue(CONFIG_WORDS["cleanup.policy"], policy) : undefined;
  if (bits === undefined || (bits & CLEANUP.COMPACT) === 0) return "";
  return "; with compact, records without a key will go; the others keep their last value";
}

const SOURCES: Readonly<Record<ConfigInfo["source"], string>> = {
  topic: "topic",
  broker: "broker",
  cluster: "all brokers",
  static: "start-up",
  default: "default",
};

/** One row for each key, behind the cells of `head`. */
export const configRows = (head: readonly string[], configs: readonly ConfigInfo[]): string[][] =>
  configs.map(({ key, value, source, isReadOnly }) => [
    ...head,
    key,
    value,
    SOURCES[source],
    isReadOnly ? "at start" : "any time",
  ]);

export const CONFIG_COLUMNS = ["KEY", "VALUE", "FROM", "ALTERABLE"];

export function tellConfigs(output: Output, configs: readonly ConfigInfo[]): void {
  output.table({ headers: CONFIG_COLUMNS, rows: configRows([], configs) });
}
