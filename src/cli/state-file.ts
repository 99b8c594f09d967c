// <data>/cluster-state.json: what another shell needs to see and stop a running cluster. Written whole and renamed into place.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, isSame, type ProcessIdentity } from "./process-identity.ts";
import { replaceText } from "./replace-file.ts";

const STATE_VERSION = 2;

/** What the launcher knows of a node's process. How it serves is for the node to say (cluster-view.ts). */
export const PROCESS_STATES = [
  /** Its process runs and has not yet said that it serves. */
  "starting",
  "running",
  "stopping",
  /** Ended in order. */
  "stopped",
  /** Ended by SIGKILL. */
  "killed",
  /** Ended by itself. */
  "failed",
] as const;
export type ProcessState = (typeof PROCESS_STATES)[number];

export interface NodeState {
  readonly nodeId: number;
  /** The last one, also when it has ended. */
  readonly process: ProcessIdentity;
  readonly state: ProcessState;
  /** When it came into this state, ISO 8601. */
  readonly since: string;
  /** Why it ended, when that was not in order. */
  readonly reason: string | null;
  readonly address: string;
  readonly dataDir: string;
  readonly logFile: string;
}

export interface ClusterState {
  readonly version: typeof STATE_VERSION;
  readonly cluster: string;
  readonly startedAt: string;
  readonly launcher: ProcessIdentity;
  /** The launcher's socket for requests of other shells. */
  readonly socket: string;
  readonly nodes: readonly NodeState[];
}

export type StateOutcome =
  | { readonly kind: "none" }
  | { readonly kind: "unreadable"; readonly reason: string }
  | { readonly kind: "found"; readonly state: ClusterState };

export const stateFileOf = (dataDir: string) => join(dataDir, "cluster-state.json");

/** What a launcher in the background said; begun anew by each start. */
export const launcherLogOf = (dataDir: string) => join(dataDir, "launcher.log");

export function readState(dataDir: string): StateOutcome {
  let text: string;
  try {
    text = readFileSync(stateFileOf(dataDir), "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return code === "ENOENT" || code === "ENOTDIR" ? { kind: "none" } : { kind: "unreadable", reason: String(code) };
  }
  try {
    return checkState(JSON.parse(text));
  } catch {
    return { kind: "unreadable", reason: "it is not JSON" };
  }
}

function checkState(value: unknown): StateOutcome {
  if (typeof value !== "object" || value === null) return { kind: "unreadable", reason: "it is not an object" };
  const state = value as Partial<ClusterState>;
  if (state.version !== STATE_VERSION) {
    return { kind: "unreadable", reason: `its version is ${String(state.version)}, this build reads ${STATE_VERSION}` };
  }
  const isWhole =
    isIdentity(state.launcher) &&
    typeof state.socket === "string" &&
    Array.isArray(state.nodes) &&
    state.nodes.every(isNodeState);
  return isWhole
    ? { kind: "found", state: state as ClusterState }
    : { kind: "unreadable", reason: "fields are missing" };
}

function isIdentity(value: unknown): value is ProcessIdentity {
  if (typeof value !== "object" || value === null) return false;
  const { pid, startTicks, bootId } = value as Partial<ProcessIdentity>;
  // A pid of 0 or below would signal a whole process group.
  return Number.isSafeInteger(pid) && (pid ?? 0) > 1 && typeof startTicks === "number" && typeof bootId === "string";
}

function isNodeState(value: unknown): value is NodeState {
  if (typeof value !== "object" || value === null) return false;
  const node = value as Partial<NodeState>;
  const isKnown = node.state !== undefined && PROCESS_STATES.includes(node.state);
  return typeof node.nodeId === "number" && typeof node.address === "string" && isKnown && isIdentity(node.process);
}

export function writeState(dataDir: string, state: Omit<ClusterState, "version">): void {
  const file = stateFileOf(dataDir);
  mkdirSync(dataDir, { recursive: true });
  replaceText(file, `${JSON.stringify({ version: STATE_VERSION, ...state }, undefined, 2)}\n`);
}

export function removeState(dataDir: string): void {
  rmSync(stateFileOf(dataDir), { force: true });
}

/** That of this launcher's cluster: another one may have been started from the directory by now. */
export function removeStateOf(dataDir: string, { launcher }: ClusterState): void {
  const now = readState(dataDir);
  if (now.kind === "found" && isSame(now.state.launcher, launcher)) removeState(dataDir);
}

/** The state of a cluster of which at least the launcher or one node still runs. */
export function liveState(dataDir: string): ClusterState | undefined {
  const outcome = readState(dataDir);
  if (outcome.kind !== "found") return undefined;
  const { launcher, nodes } = outcome.state;
  return isAlive(launcher) || nodes.some((node) => isAlive(node.process)) ? outcome.state : undefined;
}

/** A node as --json prints it. */
export function nodeAsJson({ nodeId, process: { pid }, address, dataDir, logFile, state, reason }: NodeState) {
  return { nodeId, state, pid, address, dataDir, logFile, reason };
}
