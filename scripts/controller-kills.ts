// `npm run controller-kills -- [--kills N]`: a real cluster of three, its controller killed N times (default 30) while topics are created.
// Prints a report as JSON. Exits with 1 when something acknowledged is lost, something refused appears, creation stands still for more than
// 3 s, or the cluster takes 3 s or more to be healthy.
import { killControllers, LIMITS } from "./cluster/controller-kills.ts";
import { countOf, flagsOf } from "./flags.ts";
import { BUILD, runUntilFailure } from "./stages.ts";

const usage = "npm run controller-kills -- [--kills N]";
const kills = countOf(usage, "--kills", flagsOf(usage, { kills: { type: "string", default: "30" } }).kills);
if (!Number.isInteger(kills) || kills < 1) throw new RangeError("--kills takes a number from 1 on");

const say = (line: string): void => console.error(line);
const built = process.env["OTTLA_TEST_DIST"] === undefined ? runUntilFailure([BUILD], say) : 0;
if (built !== 0) process.exit(built);
const report = await killControllers(kills, say);
console.log(JSON.stringify(report, null, 2));
const isQuick = report.gapMaxMs <= LIMITS.gapMs && report.healthyMs < LIMITS.healthyMs;
process.exitCode = report.faults.length === 0 && isQuick ? 0 : 1;
