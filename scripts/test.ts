// `npm test`: everything that must pass. Arguments go to vitest; with a file or folder among them only its tests run. What needs a tool that is not
// here skips itself with a notice.
import { BUILD, CHECKS, runAll, type Stage } from "./stages.ts";

const VITEST = ["npx", "vitest", "run"];

const args = process.argv.slice(2);
const isPartial = args.some((arg, at) => !arg.startsWith("-") && !(args[at - 1] ?? "").startsWith("--"));

/** A second run must not overwrite what the first reports. */
const besides = args.map((arg) => (arg.startsWith("--outputFile") ? `${arg}.measured` : arg));
const stages: readonly Stage[] = isPartial
  ? [{ name: "tests", command: [...VITEST, ...args] }]
  : [
      { name: "tests", command: [...VITEST, "--project", "in-process", "--project", "processes", ...args] },
      { name: "measured", command: [...VITEST, "--project", "measured", ...besides] },
      { name: "chaos and fresh seeds", command: ["npx", "tsx", "scripts/chaos-and-seeds.ts"] },
    ];

process.exitCode = runAll([BUILD, ...CHECKS, ...stages]);
