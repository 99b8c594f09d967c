// Runs commands one after the other, says how long each took, and stops at the first that fails.
import { spawnSync } from "node:child_process";

export interface Stage {
  readonly name: string;
  readonly command: readonly string[];
}

/** Exit code of the first stage that failed; 0 when all passed. Standard input is closed for all of them. */
export function runStages(stages: readonly Stage[]): number {
  for (const { name, command } of stages) {
    const startedMs = performance.now();
    const [program, ...args] = command;
    const run = spawnSync(program ?? "", args, { stdio: ["ignore", "inherit", "inherit"] });
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    const code = run.status ?? 1;
    console.error(`${name}: ${code === 0 ? "ok" : `FAILED (exit ${run.status ?? run.signal})`} in ${seconds} s`);
    if (code !== 0) return code;
  }
  return 0;
}

export const BUILD: Stage = { name: "build", command: ["npx", "tsc", "-b", "tsconfig.build.json"] };

export const CHECKS: readonly Stage[] = [
  { name: "format", command: ["npx", "biome", "format", "src", "test", "scripts", "bench"] },
  { name: "types", command: ["npx", "tsc", "-p", "tsconfig.test.json", "--noEmit"] },
  { name: "lint", command: ["npx", "oxlint", "--type-aware", "--deny-warnings", "src", "test", "scripts", "bench"] },
  { name: "layers", command: ["npx", "tsx", "scripts/layers.ts"] },
];
