// Proves that the simulator can fail: each planted bug must be caught, by an invariant named for it, within its budget of seeds,
// while the unmutated code is clean on that seed.
//   npm run mutants -- [--from SEED] [--only ID]   fresh seeds
//   npm run mutants -- --known                     one stored seed each (and a few after it: a change of the code moves them)
import { randomInt } from "node:crypto";
import { activateMutants } from "../src/base/mutant.ts";
import { flagsOf } from "./flags.ts";
import { createSimHost, type SimHost } from "./sim-host.ts";
import { KNOWN_BUDGET, knownScene, MUTANTS, type MutantPlan } from "./mutant-plans.ts";
import { faultOf, runGuarded } from "./sim-run.ts";

const values = flagsOf("npm run mutants -- [--known | --from SEED] [--only ID]", {
  from: { type: "string" },
  only: { type: "string" },
  known: { type: "boolean", default: false },
});

interface Outcome {
  readonly plan: MutantPlan;
  readonly seed: number | undefined;
  readonly tried: number;
  readonly caughtBy: string;
  readonly isCaught: boolean;
  /** Seeds on which the unmutated code fails too. */
  readonly unclean: readonly number[];
}

async function hunt(host: SimHost, plan: MutantPlan, first: number): Promise<Outcome> {
  const budget = values.known ? KNOWN_BUDGET : plan.budget;
  const options = values.known ? { adjust: knownScene(plan) } : {};
  const unclean: number[] = [];
  /** By another invariant than those that are named for it. */
  let otherwise = "nothing";
  for (let seed = first; seed < first + budget; seed++) {
    activateMutants([plan.id]);
    const mutated = await runGuarded(host, seed, options);
    activateMutants([]);
    process.stderr.write(`\r${plan.id}: ${seed - first + 1} of ${budget} seeds `);
    const fault = faultOf(mutated);
    if (fault === undefined) continue;
    const caughtBy = fault.split("\n")[0] ?? "";
    const sound = faultOf(await runGuarded(host, seed, options));
    if (sound !== undefined) {
      unclean.push(seed);
      console.log(`seed ${seed} fails without a planted bug: ${sound.split("\n")[0]}`);
      continue;
    }
    const invariant = mutated.violations[0]?.invariant;
    if (invariant !== undefined && plan.invariants.includes(invariant))
      return { plan, seed, tried: seed - first + 1, caughtBy, isCaught: true, unclean };
    otherwise = caughtBy;
  }
  return { plan, seed: undefined, tried: budget, caughtBy: otherwise, isCaught: false, unclean };
}

const host = await createSimHost();
const from = values.from === undefined ? randomInt(1_000_000_000) : Number(values.from);
const outcomes: Outcome[] = [];
for (const plan of MUTANTS) {
  if (values.only !== undefined && values.only !== plan.id) continue;
  outcomes.push(await hunt(host, plan, values.known ? plan.knownSeed : from));
}
process.stderr.write("\n");
for (const { plan, seed, tried, caughtBy, isCaught, unclean } of outcomes) {
  console.log(`${plan.id.padEnd(5)} ${isCaught ? "caught" : "MISSED"} after ${tried} seeds (${plan.about})`);
  console.log(`      by ${caughtBy}; expected invariant ${plan.invariants.join(" or ")}`);
  if (seed !== undefined && !values.known) console.log(`      npm run sim -- --seed ${seed} --mutant ${plan.id}`);
  if (unclean.length > 0) console.log(`      unclean without it: ${unclean.join(", ")}`);
}
process.exitCode =
  outcomes.length > 0 && outcomes.every((outcome) => outcome.isCaught && outcome.unclean.length === 0) ? 0 : 1;
