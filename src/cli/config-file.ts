// The configuration of a node from all its places: flag > -X > environment > file > default. A value that cannot be used is told with
// its place (file and line), what the key takes, and the nearest known key.
import { readFileSync } from "node:fs";
import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import { type BrokerConfig, brokerConfigKeys } from "../model/config.ts";
import { checkedConfig, type ConfigKey, takenBy } from "../model/config-keys.ts";
import { OttlaError } from "../model/errors.ts";
import { nearest } from "../base/nearest.ts";
import { parsePair } from "./values.ts";

export interface Setting {
  readonly value: unknown;
  /** For people: `server.json:3`, `environment OTTLA_NODE_ID`, `-X`, `flag --node-id`. */
  readonly origin: string;
}
export type Settings = ReadonlyMap<string, Setting>;

export interface EffectiveConfig {
  readonly config: BrokerConfig;
  readonly origins: Readonly<Record<string, string>>;
}

const KEYS: Readonly<Record<string, ConfigKey>> = brokerConfigKeys;
export const KNOWN_KEYS: readonly string[] = Object.keys(KEYS);

/** Of files of any kind. What helps with those of `server start` alone is not for here. */
const WHERE_TOLD = "docs/configuration.md says what it takes, for a chaos plan docs/chaos.md";

export function configError(message: string, hint = WHERE_TOLD): OttlaError {
  return new OttlaError("CONFIG_UNREADABLE", message, { hint });
}

/** A parsed file that still knows where everything stands. */
export interface ConfigDocument {
  readonly path: string;
  readonly root: Node;
  lineOf(node: Node): number;
}

export function readDocument(path: string): ConfigDocument {
  const text = readText(path);
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true, disallowComments: false });
  const place = (offset: number) => text.slice(0, offset).split("\n").length;
  const first = errors[0];
  if (first !== undefined) {
    const what = printParseErrorCode(first.error)
      .replace(/([a-z])([A-Z])/g, "$1 $2")
      .toLowerCase();
    throw configError(`${path}:${place(first.offset)}: not JSON: ${what}`);
  }
  if (root?.type !== "object") throw configError(`${path}:1: a configuration file is one JSON object`);
  return { path, root, lineOf: (node) => place(node.offset) };
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8").replace(/^\ufeff/, "");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
    const reason =
      code === "ENOENT"
        ? "no such file"
        : code === "EISDIR"
          ? "it is a directory"
          : code === "EACCES"
            ? "permission denied"
            : code;
    throw configError(`${path}: ${reason}`, "give a JSON file with -c, or none");
  }
}

export interface Member {
  readonly key: string;
  readonly keyNode: Node;
  readonly value: Node;
}

/** The members of an object, `$comment` and `$schema` left out. A key that stands twice is refused. */
export function membersOf(document: ConfigDocument, node: Node): Member[] {
  const members: Member[] = [];
  const seen = new Set<string>();
  for (const property of node.children ?? []) {
    const [keyNode, value] = property.children ?? [];
    if (keyNode === undefined || value === undefined) continue;
    const key = String(keyNode.value);
    if (seen.has(key)) throw configError(`${document.path}:${document.lineOf(keyNode)}: "${key}" stands twice`);
    seen.add(key);
    if (!key.startsWith("$")) members.push({ key, keyNode, value });
  }
  return members;
}

/** The flat keys of an object of the file. */
export function settingsOf(document: ConfigDocument, node: Node): Settings {
  const settings = new Map<string, Setting>();
  for (const { key, keyNode, value } of membersOf(document, node)) {
    const origin = `${document.path}:${document.lineOf(keyNode)}`;
    const isScalar = value.type === "string" || value.type === "number" || value.type === "boolean";
    if (!isScalar) throw configError(`${origin}: "${key}" takes a single value, not ${article(value.type)}`);
    settings.set(key, { value: value.value, origin });
  }
  return settings;
}

const article = (type: string) => (type === "null" ? "null" : /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`);

export const environmentName = (key: string) => `OTTLA_${key.toUpperCase().replaceAll(".", "_")}`;

export function settingsOfEnvironment(environment: NodeJS.ProcessEnv, except: readonly string[] = []): Settings {
  const settings = new Map<string, Setting>();
  for (const key of KNOWN_KEYS) {
    const name = environmentName(key);
    const value = environment[name];
    if (value !== undefined && value !== "" && !except.includes(key))
      settings.set(key, { value, origin: `environment ${name}` });
  }
  return settings;
}

/** Words for OTTLA_... variables that nothing reads. They are no error: an environment is shared by many programs. */
export function environmentRemarks(environment: NodeJS.ProcessEnv): string[] {
  const known = KNOWN_KEYS.map(environmentName);
  const isOther = (name: string) => name === "OTTLA_BOOTSTRAP" || /^OTTLA_(BENCH|TEST)_/.test(name);
  return Object.keys(environment)
    .filter((name) => name.startsWith("OTTLA_") && !known.includes(name) && !isOther(name))
    .sort()
    .map((name) => {
      const suggestion = nearest(name, known);
      return `warning: ${name} is no configuration key${suggestion === undefined ? "" : `: did you mean ${suggestion}?`}`;
    });
}

export function settingsOfPairs(pairs: readonly string[]): Settings {
  return new Map(
    pairs.map((text) => {
      const [key, value] = parsePair(text, "-X");
      return [key, { value, origin: "-X" }];
    }),
  );
}

/** Flags that were given, by the key they stand for. */
export function settingsOfFlags(
  flags: Readonly<Record<string, { readonly flag: string; readonly value: unknown }>>,
): Settings {
  const given = Object.entries(flags).filter(([, { value }]) => value !== undefined);
  return new Map(given.map(([key, { flag, value }]) => [key, { value, origin: `flag ${flag}` }]));
}

/** Merges the layers, the strongest last, and checks the result. `missingHint`: where a key that has no default is to be given; by default as `server start` takes it. */
export function resolveConfig(layers: readonly Settings[], missingHint?: string): EffectiveConfig {
  const merged = new Map<string, Setting>();
  for (const layer of layers) for (const [key, setting] of layer) merged.set(key, setting);
  for (const [key, { origin }] of merged) if (!KNOWN_KEYS.includes(key)) throw unknownKey(key, origin, KNOWN_KEYS);
  const given = Object.fromEntries([...merged].map(([key, { value }]) => [key, value]));
  const checked = checkedConfig(brokerConfigKeys, given);
  if (checked.kind === "invalid") throw invalidValues(checked.names, merged, missingHint);
  const origins = Object.fromEntries(KNOWN_KEYS.map((key) => [key, merged.get(key)?.origin ?? "default"]));
  return { config: checked.config, origins };
}

export function unknownKey(key: string, origin: string, known: readonly string[]): OttlaError {
  const suggestion = nearest(key, known);
  const all = known === KNOWN_KEYS ? "docs/configuration.md lists every key" : `its keys are ${known.join(", ")}`;
  return configError(
    `${origin}: unknown key "${key}"`,
    suggestion === undefined ? all : `did you mean "${suggestion}"?`,
  );
}

function invalidValues(keys: readonly string[], merged: Settings, missingHint?: string): OttlaError {
  const [first = ""] = keys;
  const hint = merged.has(first) ? KEYS[first]?.about : (missingHint ?? hintForMissing(first));
  return configError(keys.map((key) => faultOf(key, merged.get(key))).join("; "), hint);
}

function faultOf(key: string, setting: Setting | undefined): string {
  if (setting === undefined) return `"${key}" is missing`;
  const known = KEYS[key];
  const takes = known === undefined ? "nothing" : takenBy(known);
  return `${setting.origin}: "${key}" takes ${takes}, not ${JSON.stringify(setting.value)}`;
}

function hintForMissing(key: string): string {
  return `give --${key.replace(".", "-")}, -X ${key}=..., ${environmentName(key)} or a configuration file with -c`;
}
