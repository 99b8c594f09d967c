// `npm run check`: format, types, lint, layers, and the tests of the house rules.
import { BUILD, CHECKS, runUntilFailure } from "./stages.ts";

process.exitCode = runUntilFailure([
  BUILD,
  ...CHECKS,
  { name: "house", command: ["npx", "vitest", "run", "test/house", ...process.argv.slice(2)] },
]);
