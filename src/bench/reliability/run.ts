// The reliability benchmark: each fault of the matrix with a cluster of its own, and the reason where one cannot be struck here.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRng } from "../../base/rng.ts";
import { type Capabilities, missingOf } from "../../chaos/capabilities.ts";
import { faultKind } from "../../chaos/faults/all.ts";
import type { Acks } from "../../client/types.ts";
import { commit, machine } from "../machine.ts";
import { type FaultRunParts, runFault } from "./fault-run.ts";
import { ACKS_LEVELS, type ReliabilityFault } from "./matrix.ts";
import {
  RELIABILITY_VERSION,
  type ReliabilityCell,
  type ReliabilityResult,
  type ReliabilitySettings,
} from "./result.ts";

export interface ReliabilityParts {
  readonly faults: readonly ReliabilityFault[];
  readonly settings: ReliabilitySettings;
  readonly capabilities: Capabilities;
  readonly command: string;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
  /** Files of the runs are left there. */
  readonly keepIn?: string;
  readonly planted?: FaultRunParts["planted"];
}

/** A fault that cannot be struck as it should stops nothing: its cells say why. Ends early, and says so, when it is told to stop. */
export async function runReliability(parts: ReliabilityParts): Promise<ReliabilityResult> {
  const startedAt = new Date().toISOString();
  const directory = parts.keepIn ?? mkdtempSync(join(tmpdir(), "ottla-reliability-"));
  const cells: ReliabilityCell[] = [];
  try {
    for (const fault of parts.faults) {
      if (parts.signal.aborted) break;
      cells.push(...(await cellsOf(fault, join(directory, fault.id), parts)));
    }
  } finally {
    if (parts.keepIn === undefined) rmSync(directory, { recursive: true, force: true });
  }
  const { settings, command } = parts;
  return {
    version: RELIABILITY_VERSION,
    ...{ machine: machine(), commit: commit(), startedAt, command, settings, cells },
    isComplete: !parts.signal.aborted,
  };
}

async function cellsOf(
  fault: ReliabilityFault,
  directory: string,
  parts: ReliabilityParts,
): Promise<ReliabilityCell[]> {
  const kind = faultKind(fault.kind);
  if (kind === undefined) return notRun(fault, `there is no fault "${fault.kind}"`, parts);
  const missing = missingOf(kind.needs, parts.capabilities);
  if (missing.length > 0) return notRun(fault, missing.join("; "), parts);
  const { settings, say, signal, planted } = parts;
  try {
    const rng = createRng(settings.seed).fork(fault.id);
    const figures = await runFault({
      ...{ fault, kind, settings, rng, directory, say, signal },
      ...(planted === undefined ? {} : { planted }),
    });
    return ACKS_LEVELS.map((acks) => {
      const found = figures.get(acks) ?? null;
      const failed = found === null ? "nothing was sent" : null;
      return { ...nameOf(fault, acks), notRun: null, failed, figures: found };
    });
  } catch (error) {
    if (signal.aborted) return [];
    const failed = error instanceof Error ? error.message : String(error);
    say(`${fault.says}: FAILED: ${failed}`);
    return ACKS_LEVELS.map((acks) => ({ ...nameOf(fault, acks), notRun: null, failed, figures: null }));
  }
}

function notRun(fault: ReliabilityFault, reason: string, { say }: ReliabilityParts): ReliabilityCell[] {
  say(`${fault.says}: NOT RUN: ${reason}`);
  return ACKS_LEVELS.map((acks) => ({ ...nameOf(fault, acks), notRun: reason, failed: null, figures: null }));
}

function nameOf({ id, says }: ReliabilityFault, acks: Acks): Pick<ReliabilityCell, "fault" | "says" | "acks"> {
  return { fault: id, says, acks: acks === "all" ? "all" : acks === 1 ? "1" : "0" };
}
