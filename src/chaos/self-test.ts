// The harness against broken builds: nodes with a planted bug must end with a violation of what the bug breaks. A harness that stays green there proves
// nothing anywhere.
import { join } from "node:path";
import { plantedBugsModule } from "./build.ts";
import { missingOf } from "./capabilities.ts";
import type { CellName, RunReport, SelfTestRow } from "./report.ts";
import { runChaos, type RunParts } from "./run.ts";

export interface PlantedBug {
  readonly id: string;
  readonly says: string;
  /** One of these must be found broken. */
  readonly invariants: readonly number[];
  readonly cell: CellName;
}

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    id: "M1",
    says: "acks=all is acknowledged when the leader has appended",
    invariants: [1, 2],
    cell: { workload: "acks-all", fault: "lone-leader", target: "leader" },
  },
  {
    id: "M3",
    says: "a follower reports as durable what it has not synced",
    invariants: [1, 2],
    cell: { workload: "acks-all", fault: "power-loss-behind", target: "leader" },
  },
  {
    id: "M8",
    says: "any replica that is up may lead",
    invariants: [1, 2],
    cell: { workload: "acks-all-pair", fault: "return-stale", target: "leader" },
  },
];

type Run = (parts: RunParts) => Promise<RunReport>;

export interface SelfTestOptions {
  readonly bugs?: readonly PlantedBug[];
  /** For tests of the test. */
  readonly run?: Run;
}

/** One cluster for each bug, side by side, since most of it is waiting; the same cells and checks as any run has. */
export async function runSelfTest(
  parts: RunParts,
  { bugs = PLANTED_BUGS, run = runChaos }: SelfTestOptions = {},
): Promise<readonly SelfTestRow[]> {
  const missing = missingOf(["planted bugs"], parts.capabilities);
  const tried = await Promise.allSettled(
    bugs.map(async (bug) => (missing.length > 0 ? untried(bug, missing) : tryBug(bug, parts, run))),
  );
  return tried.map((row) => {
    // All have ended by now, also those that went on when the first was aborted.
    if (row.status === "rejected") throw row.reason;
    return row.value;
  });
}

function untried({ id, says }: PlantedBug, reasons: readonly string[]): SelfTestRow {
  return { id, says, status: "not run", how: reasons.join("; "), seconds: 0 };
}

/** Bounded: a bug that one cell misses gets the cell again, with other random choices. */
const TRIES = 3;

/** A broken build need not recover, only be seen through. */
const BRIEF = { warmUpMs: 500, steadyMs: 300, faultMs: 4_000, recoveryMs: 8_000, sendsMin: 1 };

async function tryBug(bug: PlantedBug, parts: RunParts, run: Run): Promise<SelfTestRow> {
  const { plan, directory } = parts;
  const { id, says } = bug;
  parts.say(`self-test: nodes with planted bug ${id} (${says})`);
  let seconds = 0;
  let how = "";
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const report = await run({
      ...parts,
      plan: { ...plan, ...BRIEF, cells: [bug.cell], rounds: 1, seed: plan.seed + attempt },
      directory: join(directory, `self-test-${id}-${attempt + 1}`),
      preload: plantedBugsModule(),
      env: { OTTLA_TEST_PLANTED_BUGS: id },
    });
    seconds += report.seconds;
    if (report.sessions.length === 0)
      return untried(
        bug,
        report.notRun.flatMap(({ reasons }) => reasons),
      );
    const found = caught(bug, report);
    if (found !== undefined) return { id, says, status: "caught", how: found, seconds };
    how = report.sessions.flatMap(({ reasons }) => reasons)[0] ?? "nothing was found";
  }
  return { id, says, status: "MISSED", how, seconds };
}

function caught({ invariants }: PlantedBug, { sessions }: RunReport): string | undefined {
  const violations = sessions.flatMap((session) => session.violations);
  const named = violations.find(({ invariant }) => invariants.includes(invariant));
  return named === undefined ? undefined : `invariant ${named.invariant}: ${named.message}`;
}
