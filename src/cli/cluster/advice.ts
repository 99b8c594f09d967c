// One line for the person at the live table: what to try next, given what the cluster is like now. Pure.
import type { ClusterView, NodeRow } from "./view.ts";

const DOWN: readonly string[] = ["killed", "failed", "stopped"];

/** `ottla` is how the command is called there. */
export function adviceFor(view: ClusterView, ottla: string): string {
  const down = view.nodes.filter(({ state }) => DOWN.includes(state));
  const paused = view.nodes.filter(({ state }) => state === "paused");
  const [firstDown] = down;
  const [firstPaused] = paused;
  switch (view.condition) {
    case "starting":
      if (view.nodes.some(({ state }) => state === "waiting"))
        return "waiting for more voters: are nodes of an earlier start left out? q stops; then start with all of them";
      return "starting; the first start takes a second or two";
    case "stopping":
      if (view.nodes.every(({ state }) => DOWN.includes(state))) return "stopped";
      return "stopping in order; Ctrl-C kills what is left";
    case "forming":
      return "the nodes look for each other: all of them must be up for the first start";
    case "no-quorum":
    case "down": {
      const what = "no topic can be created or changed until more than half of the voters are up";
      if (firstDown !== undefined) return `${what}: press r ${firstDown.nodeId}`;
      return firstPaused === undefined ? what : `${what}: press p ${firstPaused.nodeId}`;
    }
    case "healthy":
    case "degraded":
      if (firstDown !== undefined)
        return `${nameOf(firstDown)} is ${firstDown.state}: press r ${firstDown.nodeId} to start it again`;
      if (firstPaused !== undefined)
        return `${nameOf(firstPaused)} is paused: press p ${firstPaused.nodeId} to let it go on`;
      return try_(view, ottla);
  }
}

const nameOf = ({ nodeId }: NodeRow) => `node ${nodeId}`;

function try_(view: ClusterView, ottla: string): string {
  const hasTopics = view.nodes.some(({ replicas }) => (replicas ?? 0) > 0);
  if (!hasTopics) return `try in another terminal: ${ottla} topic create greetings`;
  if (view.nodes.length === 1 || view.controllerId === null) return `try in another terminal: ${ottla} topic ls`;
  return `try: press k ${view.controllerId} to kill the controller and see another node take over`;
}
