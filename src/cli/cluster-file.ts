// cluster.json: settings for all nodes, and one entry per node. Becomes the plan that the launcher carries out.
import type { Node } from "jsonc-parser";
import type { BrokerConfig } from "../model/config.ts";
import { parseVoters } from "../model/quorum-voters.ts";
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
import { nodeFolder, nodeLogOf, ownDataDir } from "./cluster/folders.ts";
import { clusterDataDir } from "./data-dir.ts";
import { parseSize, UsageError } from "./values.ts";

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
  /** Bound: bytes of one log file; as much again in the one before it. */
  readonly logBytesMax: number;
}

export interface ClusterSources {
  readonly file: string;
  readonly dataDir: string | undefined;
  /** For a cluster of one node. */
  readonly listeners?: string | undefined;
  /** Run so many nodes: the file's first ones, or more made after its last one. */
  readonly nodeCount?: number | undefined;
  /** Ports to use in place of the file's, one per node. */
  readonly ports?: readonly number[] | undefined;
  readonly pairs: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
}

/** Processes of one machine; more are no use for trying things out. */
export const NODES_MAX = 16;
const FIRST_PORT = 7070;
const VOTERS_MAX = 5;
const LOG_BYTES = "log.file.max.bytes";
const LOG_BYTES_DEFAULT = 16 * 1024 * 1024;
const LOG_BYTES_MIN = 4096;
const TOP_KEYS = ["cluster", "data.dir", LOG_BYTES, "defaults", "nodes"];
/** Keys that a node has for itself: an environment variable must not give them to all. */
const OWN_KEYS = ["node.id", "data.dir", "listeners", "advertised.listeners"];

export function planCluster(sources: ClusterSources): ClusterPlan {
  const document = readDocument(sources.file);
  const top = new Map(membersOf(document, document.root).map((member) => [member.key, member]));
  for (const { key, keyNode } of top.values()) {
    if (!TOP_KEYS.includes(key)) throw unknownKey(key, `${document.path}:${document.lineOf(keyNode)}`, TOP_KEYS);
  }
  const fileDataDir = textOf(document, "data.dir", top.get("data.dir")?.value);
  const dataDir = clusterDataDir(sources.dataDir, sources.environment, fileDataDir);
  const defaults = objectOf(document, "defaults", top.get("defaults")?.value);
  const entries = asMany(nodeEntries(document, top.get("nodes")?.value), sources.nodeCount);
  const shared = sharedLayers(sources, entries.length);
  const nodes = entries.map((entry, index) => planNode(dataDir, index, [defaults, entry, ...shared], sources.ports));
  checkTheyDiffer(nodes);
  return {
    cluster: textOf(document, "cluster", top.get("cluster")?.value) ?? "local",
    dataDir,
    nodes: withVoters(nodes),
    logBytesMax: logBytesOf(document, top.get(LOG_BYTES)?.value),
  };
}

function sharedLayers(sources: ClusterSources, nodeCount: number): Settings[] {
  if (sources.listeners !== undefined && nodeCount > 1) {
    const hint = "add -n 1, or give each node its own listeners in the cluster file";
    throw new UsageError(`--listeners is for a cluster of one node, this one has ${nodeCount}`, hint);
  }
  return [
    settingsOfEnvironment(sources.environment, OWN_KEYS),
    settingsOfPairs(sources.pairs),
    settingsOfFlags({ listeners: { flag: "--listeners", value: sources.listeners } }),
  ];
}

function planNode(
  dataDir: string,
  index: number,
  layers: readonly Settings[],
  ports: readonly number[] | undefined,
): NodePlan {
  const nodeId = layers.reduce<Setting | undefined>((found, layer) => layer.get("node.id") ?? found, undefined);
  // "01" is node 1, too.
  const folder = nodeFolder(dataDir, Number(nodeId?.value));
  const own: Settings = new Map([
    ["data.dir", { value: ownDataDir(folder), origin: "the cluster's data directory" }],
    ["listeners", { value: `ws://127.0.0.1:${FIRST_PORT + index}`, origin: "the node's place in the cluster file" }],
  ]);
  const { config } = resolveConfig([own, ...layers], 'give each of "nodes" its own, such as {"node.id": 1}');
  const port = ports?.[index];
  const listeners = port === undefined ? config.listeners : config.listeners.replace(/:\d+$/, `:${port}`);
  return { nodeId: config["node.id"], config: { ...config, listeners }, logFile: nodeLogOf(folder) };
}

/** The first `count` entries; where there are fewer, more of the last one's kind with the next ids and ports. */
function asMany(entries: readonly Settings[], count = entries.length): Settings[] {
  if (count > NODES_MAX) throw configError(`${count} nodes: one launcher runs at most ${NODES_MAX}`);
  const last = entries.at(-1);
  const idOf = (entry: Settings | undefined) => Number(entry?.get("node.id")?.value);
  const highestId = Math.max(...entries.map(idOf));
  const more = Array.from({ length: Math.max(0, count - entries.length) }, (_, index): Settings => {
    const settings = new Map(last);
    settings.set("node.id", { value: highestId + index + 1, origin: "-n" });
    const listeners = last?.get("listeners");
    if (listeners !== undefined)
      settings.set("listeners", { value: laterPort(String(listeners.value), index + 1), origin: "-n" });
    return settings;
  });
  return [...entries.slice(0, count), ...more];
}

const laterPort = (listeners: string, by: number) =>
  listeners.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) === 0 ? 0 : Number(port) + by}`);

function checkTheyDiffer(nodes: readonly NodePlan[]): void {
  const taken = new Map<string, number>();
  for (const { nodeId, config } of nodes) {
    const isAlone = nodes.length === 1;
    const address = dialAddress(config);
    if (!isAlone && address.endsWith(":0")) {
      const hint = "name a port for each node, or add --any-port";
      throw configError(`node ${nodeId} has no port of its own (${config.listeners}): its peers must find it`, hint);
    }
    for (const value of [`node.id ${nodeId}`, `data.dir ${config["data.dir"]}`, `listeners ${address}`]) {
      const other = taken.get(value);
      if (other !== undefined)
        throw configError(`nodes ${other} and ${nodeId} have the same ${value}`, "each node needs its own");
      taken.set(value, nodeId);
    }
  }
}

/** Where the others on this machine reach a node: a wildcard is dialled as loopback. */
export function dialAddress(config: BrokerConfig): string {
  const address = config.listeners.replace(/^ws:\/\//, "");
  return address.replace(/^0\.0\.0\.0(?=:\d+$)/, "127.0.0.1");
}

/** An odd number of voters: one more to make it even would tolerate no more losses. */
export const voterCount = (nodeCount: number) => Math.min(VOTERS_MAX, nodeCount - ((nodeCount + 1) % 2));

/** Fills in `controller.quorum.voters` where the file does not say it. One node alone needs no list. */
function withVoters(nodes: readonly NodePlan[]): NodePlan[] {
  const given = nodes.flatMap(({ config }) => config["controller.quorum.voters"] ?? []);
  for (const text of given) parseVoters(text);
  if (nodes.length === 1) return [...nodes];
  const listed = nodes.slice(0, voterCount(nodes.length));
  // One that the file gives to some nodes only is for all: nodes with different lists would never found a cluster.
  const voters = given[0] ?? listed.map(({ nodeId, config }) => `${nodeId}@${dialAddress(config)}`).join(",");
  return nodes.map((node) => ({ ...node, config: { "controller.quorum.voters": voters, ...known(node.config) } }));
}

/** Without keys that are there but undefined: they would hide what is spread before them. */
function known(config: BrokerConfig): BrokerConfig {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined)) as BrokerConfig;
}

function nodeEntries(document: ConfigDocument, node: Node | undefined): Settings[] {
  if (node?.type !== "array") {
    const line = node === undefined ? 1 : document.lineOf(node);
    throw configError(`${document.path}:${line}: "nodes" takes a list of nodes, such as [{"node.id": 1}]`);
  }
  const items = node.children ?? [];
  if (items.length === 0) throw configError(`${document.path}:${document.lineOf(node)}: "nodes" is empty`);
  const beyond = items[NODES_MAX];
  if (beyond !== undefined) {
    const place = `${document.path}:${document.lineOf(beyond)}`;
    throw configError(`${place}: ${items.length} nodes: one launcher runs at most ${NODES_MAX}`);
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

function logBytesOf(document: ConfigDocument, node: Node | undefined): number {
  if (node === undefined) return LOG_BYTES_DEFAULT;
  const place = `${document.path}:${document.lineOf(node)}`;
  const value = typeof node.value === "number" || typeof node.value === "string" ? String(node.value) : "";
  const bytes = parseSize(value, `${place}: "${LOG_BYTES}"`);
  if (bytes < LOG_BYTES_MIN) throw configError(`${place}: "${LOG_BYTES}" takes ${LOG_BYTES_MIN} bytes or more`);
  return bytes;
}
