// What tests of whole runs take of the simulator: bundled-runs.ts makes one file of it.
export { KNOWN_BUDGET, knownScene, MUTANTS } from "../../scripts/mutant-plans.ts";
export { createSimHost } from "../../scripts/sim-host.ts";
export { faultOf } from "../../scripts/sim-run.ts";
export { activateMutants } from "../../src/base/mutant.ts";
export { runSeed } from "../../src/sim/run-seed.ts";
