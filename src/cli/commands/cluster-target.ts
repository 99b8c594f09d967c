// Which local cluster, and which of its nodes, a command of another shell means.
import { EXIT } from "../../model/exit-codes.ts";
import { clusterDataDir } from "../data-dir.ts";
import { CommandFailure } from "../failure.ts";
import { isAlive } from "../process-identity.ts";
import { type ClusterState, readState, stateFileOf } from "../state-file.ts";
import { parseInteger } from "../values.ts";

export interface DirectoryFlags {
  readonly dataDir?: string;
}

export function directoryOf(flags: DirectoryFlags): string {
  return clusterDataDir(flags.dataDir);
}

/** Undefined: none was started from there, or it was stopped in order. */
export function stateOf(dataDir: string): ClusterState | undefined {
  const outcome = readState(dataDir);
  if (outcome.kind === "found") return outcome.state;
  if (outcome.kind === "none") return undefined;
  const file = stateFileOf(dataDir);
  const hint = "if no cluster of this directory runs, remove the file";
  throw new CommandFailure({
    code: "STATE_UNREADABLE",
    message: `${file} cannot be used: ${outcome.reason}`,
    hint,
    exitCode: EXIT.FAILED,
  });
}

/** The cluster whose launcher or one of whose nodes runs. */
export function runningCluster(dataDir: string): ClusterState {
  const state = stateOf(dataDir);
  const isThere = state !== undefined && [state.launcher, ...state.nodes.map((node) => node.process)].some(isAlive);
  if (isThere) return state;
  throw new CommandFailure({
    code: "NO_CLUSTER",
    message: `no cluster runs in ${dataDir}`,
    hint: "ottla cluster up starts one; --data-dir names another directory",
    exitCode: EXIT.NOT_FOUND,
  });
}

/** The nodes that the arguments name, each once, in their order. */
export function nodesOf<Node extends { readonly nodeId: number }>(
  nodes: readonly Node[],
  args: readonly string[],
): Node[] {
  return [...new Set(args)].map((text) => {
    const nodeId = parseInteger(text, "a node", { min: 1, max: 65_535 });
    const node = nodes.find((one) => one.nodeId === nodeId);
    if (node !== undefined) return node;
    throw new CommandFailure({
      code: "UNKNOWN_NODE",
      message: `this cluster has no node ${nodeId}`,
      hint: `its nodes are ${nodes.map((one) => one.nodeId).join(", ")}`,
      exitCode: EXIT.NOT_FOUND,
    });
  });
}
