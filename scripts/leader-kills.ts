// `npm run leader-kills -- [--kills N]`: a real cluster of three, one node after another killed N times (default 30) while records are sent with
// acks=all. Prints a report as JSON. Exits with 1 when something acknowledged is lost, a partition takes nothing for more than 2.5 s (3 s where the
// node was the controller, too), or the first replicas do not lead again within 10 s.
import { isQuick, killLeaders } from "./cluster/leader-kills.ts";
import { countOf, flagsOf } from "./flags.ts";
import { BUILD, runUntilFailure } from "./stages.ts";

const usage = "npm run leader-kills -- [--kills N]";
const kills = countOf(usage, "--kills", flagsOf(usage, { kills: { type: "string", default: "30" } }).kills);
if (!Number.isInteger(kills) || kills < 1) throw new RangeError("--kills takes a number from 1 on");

const say = (line: string): void => console.error(line);
const built = process.env["OTTLA_TEST_DIST"] === undefined ? runUntilFailure([BUILD], say) : 0;
if (built !== 0) process.exit(built);
const report = await killLeaders(kills, say);
console.log(JSON.stringify(report, null, 2));
process.exitCode = report.faults.length === 0 && isQuick(report) ? 0 : 1;
