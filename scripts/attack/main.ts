// `npm run attack -- [--frames N] [--sequences N] [--seed N] [--only frame:N,sequence:N]`: a real node under damaged requests and senseless sequences of
// them, through its port. Prints counts of all answers by their code. Exits with 1 when anything happened that must not: see attack.ts.
import { countOf, flagsOf } from "../flags.ts";
import { BUILD, runUntilFailure } from "../stages.ts";
import { attack } from "./attack.ts";

const usage = "npm run attack -- [--frames N] [--sequences N] [--seed N] [--only frame:N,sequence:N,...]";
const values = flagsOf(usage, {
  frames: { type: "string", default: "50000" },
  sequences: { type: "string", default: "500" },
  seed: { type: "string" },
  only: { type: "string" },
});
const frames = countOf(usage, "--frames", values.frames);
const sequences = countOf(usage, "--sequences", values.sequences);
const seed = values.seed === undefined ? 1 + (Date.now() % 2 ** 32) : countOf(usage, "--seed", values.seed);
const say = (line: string): void => console.error(line);
const built = process.env["OTTLA_TEST_DIST"] === undefined ? runUntilFailure([BUILD], say) : 0;
if (built !== 0) process.exit(built);

say(`attack: seed ${seed}`);
const { counts, faults, bystander, ...report } = await attack({
  say,
  seed,
  frames,
  sequences,
  ...(values.only !== undefined && { only: values.only.split(",") }),
});
for (const [code, count] of Object.entries(counts)) console.log(`${code}\t${count}`);
say(JSON.stringify({ ...report, bystander }, null, 2));
for (const fault of faults) say(`attack: ${fault}`);
say(
  faults.length === 0
    ? "attack: no finding"
    : `attack: again with: npm run attack -- --seed ${seed} --frames ${frames} --sequences ${sequences}`,
);
process.exitCode = faults.length === 0 ? 0 : 1;
