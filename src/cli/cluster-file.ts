// cluster.json: settings for all nodes, and one entry per node. Becomes the plan that the launcher carries out.
import { join, resolve } from "node:path";
import type { Node } from "jsonc-parser";
import type { BrokerConfig } from "../model/config.ts";
import {
  type ConfigDocument,
  configError,
  membersOf,
  readDocument,
  resolveConfig,
  type Setting,
  type Settings,
  settingsOf,
  settingsOfEnvironment,
  settingsOfFlags,
  settingsOfPairs,
  unknownKey,
} from "./config-file.ts";
import { DEFAULT_DATA_DIR } from "./data-dir.ts";

export interface NodePlan {
  readonly nodeId: number;
  readonly config: BrokerConfig;
  readonly logFile: string;
}

export interface ClusterPlan {
  readonly cluster: string;
  /** Absolute; holds a folder per node and the state file. */
  readonly dataDir: string;
  readonly nodes: readonly NodePlan[];
}

export interface ClusterSources {
  readonly file: string;
  readonly dataDir: string | undefined;
  /** For a cluster of one node. */
  readonly listeners?: string | undefined;
  readonly pairs: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
}

const TOP_KEYS = ["cluster", "data.dir", "defaults", "nodes"];
/** Keys that a node has for itself: an environment variable must not give them to all. */
const OWN_KEYS = ["node.id", "data.dir", "listeners", "advertised.listeners"];

export function planCluster(sources: ClusterSources): ClusterPlan {
  const document = readDocument(sources.file);
  const top = new Map(membersOf(document, document.root).map((member) => [member.key, member]));
  for (const { key, keyNode } of top.values()) {
    if (!TOP_KEYS.includes(key)) throw unknownKey(key, `${document.path}:${document.lineOf(keyNode)}`, TOP_KEYS);
  }
  const fileDataDir = textOf(document, "data.dir", top.get("data.dir")?.value);
  const dataDir = resolve(sources.dataDir ?? sources.environment["OTTLA_DATA_DIR"] ?? fileDataDir ?? DEFAULT_DATA_DIR);
  const defaults = objectOf(document, "defaults", top.get("defaults")?.value);
  const shared = [
    settingsOfEnvironment(sources.environment, OWN_KEYS),
    settingsOfPairs(sources.pairs),
    settingsOfFlags({ listeners: { flag: "--listeners", value: sources.listeners } }),
  ];
  const entries = nodeEntries(document, top.get("nodes")?.value);
  const nodes = entries.map((entry) => planNode(dataDir, [defaults, entry, ...shared]));
  return { cluster: textOf(document, "cluster", top.get("cluster")?.value) ?? "local", dataDir, nodes };
}

function planNode(dataDir: string, layers: readonly Settings[]): NodePlan {
  const nodeId = layers.reduce<Setting | undefined>((found, layer) => layer.get("node.id") ?? found, undefined);
  const folder = join(dataDir, `node-${String(nodeId?.value)}`);
  const own = new Map([["data.dir", { value: join(folder, "data"), origin: "the cluster's data directory" }]]);
  const { config } = resolveConfig([own, ...layers]);
  return { nodeId: config["node.id"], config, logFile: join(folder, "log", "ottla.log") };
}

function nodeEntries(document: ConfigDocument, node: Node | undefined): Settings[] {
  if (node?.type !== "array") {
    const line = node === undefined ? 1 : document.lineOf(node);
    throw configError(`${document.path}:${line}: "nodes" takes a list of nodes, such as [{"node.id": 1}]`);
  }
  const items = node.children ?? [];
  if (items.length === 0) throw configError(`${document.path}:${document.lineOf(node)}: "nodes" is empty`);
  const second = items[1];
  if (second !== undefined) {
    const place = `${document.path}:${document.lineOf(second)}`;
    const hint = "leave one entry under nodes";
    throw configError(
      `${place}: ${items.length} nodes: replication comes in a later release, this one runs clusters of one node`,
      hint,
    );
  }
  return items.map((item) => objectOf(document, "nodes", item));
}

function objectOf(document: ConfigDocument, key: string, node: Node | undefined): Settings {
  if (node === undefined) return new Map();
  if (node.type !== "object") throw configError(`${document.path}:${document.lineOf(node)}: "${key}" takes an object`);
  return settingsOf(document, node);
}

function textOf(document: ConfigDocument, key: string, node: Node | undefined): string | undefined {
  if (node === undefined) return undefined;
  if (node.type === "string" && node.value !== "") return String(node.value);
  throw configError(`${document.path}:${document.lineOf(node)}: "${key}" takes a text`);
}
