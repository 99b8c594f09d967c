// Builds what runs: src/ becomes few files in dist/, beside the declarations that the compiler writes there. Loading 300 modules one by one is half of a
// node's start. Packages are not bundled: they stay what package.json says.
//   tsx scripts/build.ts                 for this working copy: `npm run build`
//   tsx scripts/build.ts --published     for `npm pack`: without planted bugs and failpoints, and nothing of earlier builds is left
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { build, type OutputFile, type Plugin } from "esbuild";

const ROOT = resolve(import.meta.dirname, "..");

/** What a package, a process, a thread or `--import` begins with. */
export const ENTRY_POINTS = [
  "index",
  "cli/main",
  "cli/node-process",
  "bench/socket-sender",
  "bench/load/load-process",
  "bench/failover/client-process",
  "chaos/clients/main",
  "chaos/faults/proxy-worker",
];
/** They switch planted bugs and failpoints on; a published build has none. */
export const SWITCHES = ["base/mutant", "chaos/planted-bugs", "chaos/faults/failpoint-preload"];
/** Packages in the older module format. Imported, each of their files is searched for names first, which takes as long as all else that a command loads. */
const REQUIRED = ["commander", "jsonc-parser", "pino", "ws"];
const DAY_MS = 86_400_000;

export interface BuildOptions {
  readonly directory: string;
  readonly isPublished: boolean;
}

/** The files that it wrote, all within the directory. */
export async function buildFiles({ directory, isPublished }: BuildOptions): Promise<string[]> {
  const entryPoints = isPublished ? ENTRY_POINTS : [...ENTRY_POINTS, ...SWITCHES];
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: entryPoints.map((name) => `src/${name}.ts`),
    outbase: "src",
    outdir: directory,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    chunkNames: "chunks/[name]-[hash]",
    plugins: [requiredPackages, ...(isPublished ? [await withoutPlantedBugs()] : [])],
    write: false,
    logLevel: "error",
  });
  // Parts first: a process that starts now finds all of an older build or all of this one.
  for (const file of [...outputFiles].sort((left, right) => Number(isPart(right)) - Number(isPart(left)))) place(file);
  const paths = outputFiles.map(({ path }) => path);
  // A process of an earlier build may still load a part of it.
  removeOthers(directory, paths, isPublished ? 0 : DAY_MS);
  return paths;
}

const isPart = ({ path }: OutputFile) => path.includes("/chunks/");

/** Whole or not there. A part that is there already is the same: its name says what is in it. */
function place(file: OutputFile): void {
  if (isPart(file) && existsSync(file.path)) return;
  mkdirSync(dirname(file.path), { recursive: true });
  const fresh = `${file.path}.${process.pid}`;
  writeFileSync(fresh, file.contents);
  renameSync(fresh, file.path);
}

function removeOthers(directory: string, kept: readonly string[], ageMs: number): void {
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const path = join(directory, name);
    if (name.endsWith(".js") && !kept.includes(path) && Date.now() - statSync(path).mtimeMs >= ageMs) rmSync(path);
  }
}

/** `import { WebSocket } from "ws"` becomes what a person would write with require(). */
const requiredPackages: Plugin = {
  name: "required-packages",
  setup({ onResolve, onLoad }) {
    const namespace = "required";
    const filter = new RegExp(`^(${REQUIRED.join("|")})$`);
    onResolve({ filter }, ({ path }) => ({ path, namespace }));
    onLoad({ filter, namespace }, ({ path }) => ({
      contents: [
        'import { createRequire } from "node:module";',
        `export const { ${namesOf(path).join(", ")} } = createRequire(import.meta.url)("${path}");`,
      ].join("\n"),
    }));
  },
};

const namesOf = (name: string) =>
  Object.keys(createRequire(import.meta.url)(name) as object).filter(
    (key) => /^[A-Za-z_]\w*$/.test(key) && key !== "default",
  );

/** The compiler that it needs takes a second to load: other builds do without. */
async function withoutPlantedBugs(): Promise<Plugin> {
  const { stripMutants } = await import("./strip-mutants.ts");
  return {
    name: "without-planted-bugs",
    setup({ onLoad }) {
      onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({
        contents: stripMutants(relative(ROOT, path), readFileSync(path, "utf8")),
        loader: "ts",
      }));
    },
  };
}

if (import.meta.filename === process.argv[1]) {
  const isPublished = process.argv.includes("--published");
  await buildFiles({ directory: join(ROOT, "dist"), isPublished });
}
