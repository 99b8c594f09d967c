// Prints the shortest scenario of a failing seed that still fails in the same way, and how to run it again.
import type { SwarmConfig } from "../src/sim/swarm.ts";
import { type Reduction, reduced, reductionText } from "../src/sim/reduction.ts";
import { shrink } from "../src/sim/shrink.ts";
import type { SeedResult } from "../src/sim/run-seed.ts";
import type { TraceEvent } from "../src/sim/world.ts";
import type { SimHost } from "./sim-host.ts";
import { faultOf, runGuarded } from "./sim-run.ts";

/** After this long nothing more is tried. */
const TRY_FOR_MS = 120_000;
/** Of what is printed: what broke, who was elected, what was injected. */
const TOLD = [
  "act",
  "fault",
  "crash",
  "process",
  "partition",
  "pause",
  "resume",
  "rot",
  "unreadable",
  "phase",
  "violation",
];
const LINES_MAX = 60;

export async function shrinkSeed(host: SimHost, seed: number, mutant: string | undefined): Promise<void> {
  let drawn: SwarmConfig | undefined;
  const untilMs = host.realMs() + TRY_FOR_MS;
  const run = (reduction: Reduction, onTrace?: (event: TraceEvent) => void): Promise<SeedResult> =>
    runGuarded(host, seed, {
      adjust: (swarm) => {
        drawn ??= swarm;
        return reduced(swarm, reduction);
      },
      ...(onTrace === undefined ? {} : { onTrace }),
    });
  await run({ safetyMs: 0, acts: [] }); // only to learn what it draws
  if (drawn === undefined) throw new Error("the seed drew nothing");
  const shrunk = await shrink({
    run,
    swarm: drawn,
    mayGoOn: () => host.realMs() < untilMs,
    onStep: (what, isAccepted) => process.stderr.write(`${isAccepted ? "  without" : "  needs  "} ${what}\n`),
  });
  if (shrunk === undefined) {
    console.log(`seed ${seed} does not fail`);
    return;
  }
  const lines: string[] = [];
  const last = await run(shrunk.reduction, ({ timeMs, node, kind, detail }) => {
    if (TOLD.includes(kind)) lines.push(`${timeMs.toFixed(1).padStart(10)} ms  ${node.padEnd(8)} ${kind} ${detail}`);
  });
  console.log(`seed ${seed}, ${shrunk.runs} runs: ${faultOf(last) ?? "it does not fail any more"}`);
  for (const line of lines.slice(-LINES_MAX)) console.log(line);
  const mutantFlags = mutant === undefined ? "" : ` --mutant ${mutant}`;
  console.log(`npm run sim -- --seed ${seed}${mutantFlags} --reduced "${reductionText(shrunk.reduction)}" --trace`);
  process.exitCode = 1;
}
