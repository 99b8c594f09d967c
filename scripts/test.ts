// `npm test`: everything that must pass. Arguments go to vitest. What needs a tool that is not here skips itself with a notice.
import { BUILD, CHECKS, runAll } from "./stages.ts";

process.exitCode = runAll([
  BUILD,
  ...CHECKS,
  { name: "tests", command: ["npx", "vitest", "run", ...process.argv.slice(2)] },
]);
