// Runs commands one after the other and says how long each took, or one in this process's place.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

export interface Stage {
  readonly name: string;
  readonly command: readonly string[];
}

type Say = (line: string) => void;

/** Runs all of them, also after a failure, and ends with a line that names what failed. Exit code of the first failure, or 0. */
export function runAll(stages: readonly Stage[], say: Say = console.error): number {
  const results = stages.map((stage) => {
    const startedMs = performance.now();
    const code = runStage(stage, say);
    return { name: stage.name, code, minutes: (performance.now() - startedMs) / 60_000 };
  });
  const failed = results.filter(({ code }) => code !== 0);
  for (const { name, code, minutes } of results)
    say(`${name.padEnd(22)} ${minutes.toFixed(1).padStart(6)} min  ${code === 0 ? "ok" : "FAILED"}`);
  say(
    `${"in all".padEnd(22)} ${results
      .reduce((sum, { minutes }) => sum + minutes, 0)
      .toFixed(1)
      .padStart(6)} min`,
  );
  const names = failed.map(({ name }) => name).join(", ");
  say(failed.length === 0 ? `all ${stages.length} stages passed` : `FAILED: ${names}`);
  return failed[0]?.code ?? 0;
}

/** Stops at the first failure and gives its exit code; 0 when all passed. */
export function runUntilFailure(stages: readonly Stage[], say: Say = console.error): number {
  for (const stage of stages) {
    const code = runStage(stage, say);
    if (code !== 0) return code;
  }
  return 0;
}

/** Standard input is closed for every stage. */
function runStage({ name, command }: Stage, say: Say): number {
  const startedMs = performance.now();
  const [program, ...args] = command;
  const run = spawnSync(program ?? "", args, { stdio: ["ignore", "inherit", "inherit"] });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const how = run.error?.message ?? `exit ${run.status ?? run.signal}`;
  say(`${name}: ${run.status === 0 ? "ok" : `FAILED (${how})`} in ${seconds} s`);
  return run.status ?? 1;
}

/** A command of the build in this process's place: it is told what signals tell this one, ends in order, and its exit code is this one's. */
export async function runInPlace(args: readonly string[]): Promise<void> {
  const run = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
  // The terminal's Ctrl-C comes to both.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void run.kill(signal));
  const [exitCode] = (await once(run, "exit")) as [number | null];
  process.exitCode = exitCode ?? 1;
}

export const BUILD: Stage = { name: "build", command: ["npm", "run", "-s", "build"] };

export const CHECKS: readonly Stage[] = [
  { name: "format", command: ["npx", "biome", "format", "src", "test", "scripts", "bench"] },
  { name: "types", command: ["npx", "tsc", "-p", "tsconfig.test.json", "--noEmit"] },
  { name: "lint", command: ["npx", "oxlint", "--type-aware", "--deny-warnings", "src", "test", "scripts", "bench"] },
  { name: "layers", command: ["npx", "tsx", "scripts/layers.ts"] },
];
