// `npm test`: everything that must pass. Arguments go to vitest; with a file or folder among them only its tests run. What needs a tool that is not
// here skips itself with a notice.
import { BUILD, CHECKS, runAll, type Stage } from "./stages.ts";

/** What measures real processes against the clock runs by itself. */
const MEASURED = [
  "test/cluster/demo.test.ts",
  "test/cluster/failover.test.ts",
  "test/attack/attack.test.ts",
  "test/attack/crowd.test.ts",
  "test/chaos/run.test.ts",
];

const args = process.argv.slice(2);
const isPartial = args.some((arg, at) => !arg.startsWith("-") && !(args[at - 1] ?? "").startsWith("--"));

/** A second run must not overwrite what the first reports. */
const besides = args.map((arg) => (arg.startsWith("--outputFile") ? `${arg}.measured` : arg));
const stages: readonly Stage[] = isPartial
  ? [{ name: "tests", command: ["npx", "vitest", "run", ...args] }]
  : [
      {
        name: "tests",
        command: ["npx", "vitest", "run", ...MEASURED.flatMap((file) => ["--exclude", file]), ...args],
      },
      { name: "measured", command: ["npx", "vitest", "run", "--maxWorkers=1", ...besides, ...MEASURED] },
      { name: "chaos and fresh seeds", command: ["npx", "tsx", "scripts/chaos-and-seeds.ts"] },
    ];

process.exitCode = runAll([BUILD, ...CHECKS, ...stages]);
