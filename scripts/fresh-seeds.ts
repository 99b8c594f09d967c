// `npm run fresh-seeds -- [--count 60] [--first SEED]`: seeds of the simulator that nobody has run before, two processes at a time. Where they begin follows
// from the commit, so that a run can be repeated; without one, from the date. Exits with 1 when one fails, and says how to see it again.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { bundle } from "./bundled.ts";
import { flagsOf } from "./flags.ts";

const PROCESSES = 2;
/** Apart from those that people try by hand, and apart from each other. */
const BASE = 1_000_000;
const SLOTS = 1_000_000;
const APART = 1_000;

const values = flagsOf("npm run fresh-seeds -- [--count N] [--first SEED]", {
  count: { type: "string", default: "60" },
  first: { type: "string" },
});

function firstOfCommit(): number {
  const { stdout, status } = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  const days = Math.floor(Date.now() / 86_400_000);
  const number = status === 0 ? Number.parseInt(stdout.slice(0, 10), 16) : days;
  return BASE + (number % SLOTS) * APART;
}

const first = values.first === undefined ? firstOfCommit() : Number(values.first);
const count = Number(values.count);
if (!Number.isInteger(count) || count < 1) throw new RangeError("--count takes a number from 1 on");
console.log(`seeds ${first}..${first + count - 1}; again: npm run fresh-seeds -- --first ${first} --count ${count}`);

const simulator = bundle(fileURLToPath(new URL("sim.ts", import.meta.url)));

/** Ends with what it found; progress is for terminals. */
async function run(from: number, to: number): Promise<number> {
  const child = spawn(process.execPath, [...simulator.args, "--seeds", `${from}..${to}`], {
    stdio: ["ignore", "inherit", "ignore"],
  });
  await once(child, "close");
  return child.exitCode ?? 1;
}

const share = Math.ceil(count / PROCESSES);
const starts = Array.from({ length: PROCESSES }, (_, at) => first + at * share).filter((from) => from < first + count);
try {
  const codes = await Promise.all(starts.map((from) => run(from, Math.min(from + share, first + count) - 1)));
  process.exitCode = Math.max(...codes);
} finally {
  simulator.remove();
}
