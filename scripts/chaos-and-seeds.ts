// The last stage of `npm test`: a chaos run waits most of its time, fresh seeds of the simulator compute, so they run side by side, and the seeds give way:
// how busy the machine is means nothing to them. Says how long each took.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";

const PARTS: Readonly<Record<string, { readonly args: readonly string[]; readonly nice: number }>> = {
  chaos: { args: ["dist/cli/main.js", "chaos", "run"], nice: 0 },
  "fresh seeds": { args: ["--import", "tsx", "scripts/fresh-seeds.ts"], nice: 10 },
};

const startedMs = performance.now();
const codes = await Promise.all(
  Object.entries(PARTS).map(async ([name, { args, nice }]) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
    // Before it starts processes of its own, which are as nice as it is.
    if (child.pid !== undefined && nice > 0) setPriority(child.pid, nice);
    await once(child, "close");
    const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1);
    console.error(`${name}: ${child.exitCode === 0 ? "ok" : `FAILED (exit ${child.exitCode})`} after ${minutes} min`);
    return child.exitCode ?? 1;
  }),
);
process.exitCode = codes.find((code) => code !== 0) ?? 0;
