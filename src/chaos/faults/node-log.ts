// What a node's log says from some moment on: the evidence that a fault was noticed.
import { readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosNode } from "../cluster-types.ts";

const LOOK_AGAIN_MS = 50;

export interface LoggedEvent {
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Whole lines that were written since; the node may be up. */
export function logSince({ logFile }: ChaosNode): () => readonly LoggedEvent[] {
  const from = statSync(logFile).size;
  return () => readFileSync(logFile).subarray(from).toString("utf8").split("\n").flatMap(parsed);
}

/** Lines for people, such as the error of a start that was refused, are of the event "text". */
function parsed(line: string): readonly LoggedEvent[] {
  if (line === "") return [];
  try {
    const fields = JSON.parse(line) as Record<string, unknown>;
    return typeof fields["event"] === "string" ? [{ event: fields["event"], fields }] : [];
  } catch {
    return [{ event: "text", fields: { text: line } }];
  }
}

/** Undefined: it was not logged in time. */
export async function untilLogged(
  events: () => readonly LoggedEvent[],
  isWanted: (logged: LoggedEvent) => boolean,
  timeoutMs: number,
): Promise<LoggedEvent | undefined> {
  const untilMs = performance.now() + timeoutMs;
  for (;;) {
    const found = events().find(isWanted);
    if (found !== undefined || performance.now() > untilMs) return found;
    await sleep(LOOK_AGAIN_MS);
  }
}
