// The tables of docs/ that are made from the code. A table stands between two marker lines; what is around it is written by hand.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { benchmarkTables } from "./benchmark-table.ts";
import { parseReliability } from "../src/bench/reliability/result-file.ts";
import { readmeTable } from "../src/bench/reliability/table.ts";
import { RUNTIME_CONFIGS, type RuntimeConfigKey } from "../src/metadata/configs.ts";
import { brokerConfigKeys, runtimeTopicConfigKeys } from "../src/model/config.ts";
import type { ConfigKey } from "../src/model/config-keys.ts";
import { ERRORS, type ErrorRow } from "../src/model/errors.ts";
import { EXIT } from "../src/model/exit-codes.ts";

export type TableName = "errors" | "exit-codes" | "config" | "layers" | "reliability" | "benchmarks";

const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  OK: "done",
  FAILED:
    "the command failed, or any item of a command with several did; `ottla log verify` or `ottla log dump` found damage",
  USAGE:
    "wrong flags, arguments or configuration; also what the broker refuses as such (a topic's name, partitions, replication factor or settings)",
  UNREACHABLE: "no broker could be reached, or it did not answer in time",
  NOT_FOUND: "the named thing does not exist",
  DENIED: "not allowed",
  UNSAFE: "refused as unsafe without `--yes`",
  UNHEALTHY: "a health check failed",
  INVARIANT_BROKEN:
    "a node found loss, corruption or a broken invariant in its own data, or does not start on damaged files",
  DISK_FAILED: "a node's disk failed a write or a sync; nothing unsynced was acknowledged",
  RECOVERY_FAILED: "a sync failed during recovery: the node refuses to start on this disk",
  DATA_DIR_REFUSED: "the data directory is locked, foreign, of a newer format or read-only",
  BUG: "an assertion failed: a bug in Ottla",
  SIGHUP: "ended by a closed terminal before it was done",
  SIGINT: "ended by Ctrl-C before it was done",
  SIGTERM: "ended by SIGTERM before it was done",
};

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string =>
    `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

export function errorTable(): string {
  const rows = (Object.entries(ERRORS) as [string, ErrorRow][]).map(([name, row]) => [
    `\`${name}\``,
    row.code,
    row.kafkaCode,
    row.retriable ? "yes" : "no",
    row.meaning,
    row.hint,
  ]);
  return table(["error", "code", "Kafka code", "retriable", "meaning", "what to do"], rows);
}

export function exitCodeTable(): string {
  const names = Object.keys(EXIT) as (keyof typeof EXIT)[];
  return table(
    ["exit code", "meaning"],
    names.map((name) => [EXIT[name], EXIT_MEANINGS[name]]),
  );
}

export function configTable(): string {
  const keys: Readonly<Record<string, ConfigKey>> = { ...brokerConfigKeys, ...runtimeTopicConfigKeys };
  const rows = Object.entries(keys).map(([name, key]) => [
    `\`${name}\``,
    key.absence === "required" ? "required" : (key.fallback ?? ""),
    key.kind === "text" ? "" : `${key.min} .. ${key.max}`,
    Object.hasOwn(RUNTIME_CONFIGS, name) ? scopesOf(name as RuntimeConfigKey) : "",
    key.about,
  ]);
  return table(["key", "default", "bounds", "at run time", "what it is"], rows);
}

/** Where the key may be set while brokers run, and from when on that counts. */
function scopesOf(key: RuntimeConfigKey): string {
  const names = { topic: "topic", node: "broker", cluster: "all brokers" } as const;
  const { scopes, takesEffect } = RUNTIME_CONFIGS[key];
  return `${scopes.map((scope) => names[scope]).join(", ")}; ${takesEffect}`;
}

interface LayerRules {
  readonly forbidden: readonly { readonly name: string; readonly comment: string }[];
}

/** The allow-lists of .dependency-cruiser.cjs; each rule says in its comment whom it lets in. */
export function layerTable(): string {
  const { forbidden } = createRequire(import.meta.url)("../.dependency-cruiser.cjs") as LayerRules;
  const rows = forbidden.flatMap(({ comment }) => {
    const [, who, whom] = /^(src\/\S+) may import only (.*)$/.exec(comment) ?? [];
    return who === undefined || whom === undefined ? [] : [[`\`${who.slice(4)}\``, whom.replace(/^itself(, )?/, "")]];
  });
  return table(["folder or file", "may import, besides itself"], rows);
}

/** What `ottla bench reliability` found when its figures were last taken. */
export const RELIABILITY_FILE = "docs/reliability.json";

function reliabilityTable(): string {
  return readmeTable(parseReliability(readFileSync(RELIABILITY_FILE, "utf8"), RELIABILITY_FILE));
}

export const TABLES: Readonly<Record<TableName, () => string>> = {
  errors: errorTable,
  "exit-codes": exitCodeTable,
  config: configTable,
  layers: layerTable,
  reliability: reliabilityTable,
  benchmarks: benchmarkTables,
};

/** The text with the named table replaced. Throws when its marker lines are not there exactly once. */
export function withTable(text: string, name: TableName): string {
  const begin = `<!-- ${name}: made by a script, do not edit -->`;
  const end = `<!-- end of ${name} -->`;
  const [before, inside, ...more] = text.split(begin);
  const after = inside?.split(end)[1];
  if (before === undefined || after === undefined || more.length > 0) throw new Error(`no place for the table ${name}`);
  return `${before}${begin}\n${TABLES[name]()}\n${end}${after}`;
}

export function writeTables(path: string, names: readonly TableName[]): void {
  writeFileSync(path, names.reduce(withTable, readFileSync(path, "utf8")));
}
