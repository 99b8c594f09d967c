// The last stage of `npm test`: a chaos run waits most of its time, fresh seeds of the simulator compute, so they run side by side. Says how long each took.
import { spawn } from "node:child_process";
import { once } from "node:events";

const PARTS: Readonly<Record<string, readonly string[]>> = {
  chaos: ["dist/cli/main.js", "chaos", "run"],
  "fresh seeds": ["--import", "tsx", "scripts/fresh-seeds.ts"],
};

const startedMs = performance.now();
const codes = await Promise.all(
  Object.entries(PARTS).map(async ([name, args]) => {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
    await once(child, "close");
    const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1);
    console.error(`${name}: ${child.exitCode === 0 ? "ok" : `FAILED (exit ${child.exitCode})`} after ${minutes} min`);
    return child.exitCode ?? 1;
  }),
);
process.exitCode = codes.find((code) => code !== 0) ?? 0;
