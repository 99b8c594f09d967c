// Runs one of these scripts as one file: tsx scripts/bundled.ts scripts/sim.ts [its arguments].
// Whoever computes for minutes gains by it: loaded one by one, every function keeps its name at a price that is paid for each closure.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** Below the packages, which a bundle imports by name. */
const CACHE = fileURLToPath(new URL("../node_modules/.cache/ottla", import.meta.url));
/** Of V8's young generation, in MiB: a seed makes much that dies at once. */
const YOUNG_MIB = 64;

export interface Bundle {
  /** Of a process that runs it; the script's own come behind them. */
  readonly args: readonly string[];
  readonly file: string;
  readonly remove: () => void;
}

/** The script must ask for no file beside itself. */
export function bundle(script: string): Bundle {
  mkdirSync(CACHE, { recursive: true });
  const directory = mkdtempSync(join(CACHE, "bundle-"));
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  const outfile = join(directory, basename(script).replace(/ts$/, "mjs"));
  try {
    buildSync({
      entryPoints: [script],
      bundle: true,
      platform: "node",
      format: "esm",
      packages: "external",
      sourcemap: true,
      logLevel: "silent",
      outfile,
    });
  } catch (thrown) {
    remove();
    throw thrown;
  }
  return { args: [`--max-semi-space-size=${YOUNG_MIB}`, "--enable-source-maps", outfile], file: outfile, remove };
}

/** Ends with its exit code; nothing of it is left behind. */
async function run(script: string, rest: readonly string[]): Promise<number> {
  const { args, remove } = bundle(script);
  try {
    const child = spawn(process.execPath, [...args, ...rest], { stdio: "inherit" });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
    await once(child, "close");
    return child.exitCode ?? 1;
  } finally {
    remove();
  }
}

if (import.meta.filename === process.argv[1]) {
  const [, , script, ...rest] = process.argv;
  if (script === undefined) throw new RangeError("usage: tsx scripts/bundled.ts SCRIPT [its arguments]");
  process.exitCode = await run(script, rest);
}
