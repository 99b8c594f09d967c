// `npm test`: everything that must pass. Arguments go to vitest. What needs a tool that is not here skips itself with a notice.
import { BUILD, CHECKS, runStages } from "./stages.ts";

process.exitCode = runStages([
  BUILD,
  ...CHECKS,
  { name: "tests", command: ["npx", "vitest", "run", ...process.argv.slice(2)] },
]);
