// What is published: no simulator, no tests, no planted bug that a switch could wake.
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { buildFiles, ENTRY_POINTS, SWITCHES } from "../../scripts/build.ts";
import { stripMutants } from "../../scripts/strip-mutants.ts";
import { filesUnder, needsBuild, read, ROOT } from "./tree.ts";

let root = "";

afterEach(() => {
  if (root !== "") rmSync(root, { recursive: true, force: true });
  root = "";
});

interface PackReport {
  readonly files: readonly { readonly path: string }[];
}

describe("the package", () => {
  it("holds the built code, the docs and the licence, and nothing else", (context) => {
    needsBuild(context);
    const run = spawnSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: ROOT, encoding: "utf8" });
    const [report] = JSON.parse(run.stdout) as PackReport[];
    const paths = (report?.files ?? []).map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["LICENSE", "README.md", "package.json", "dist/cli/main.js", "dist/index.js"]),
    );
    const allowed =
      /^(dist\/.*\.(js|d\.ts)|src\/chaos\/shim\/\w+\.c|docs\/.*\.(md|json)|LICENSE|README\.md|package\.json|cluster\.example\.json)$/;
    expect(
      paths.filter((path) => !allowed.test(path) || path.startsWith("dist/sim/") || path.includes(".test.")),
    ).toEqual([]);
  });

  it("has no planted bug and no failpoint, nor what switches them on, and still loads", async () => {
    root = mkdtempSync(join(tmpdir(), "ottla-package-"));
    const directory = join(root, "dist");
    for (const name of ["package.json", "cluster.example.json"]) cpSync(join(ROOT, name), join(root, name));
    symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
    await buildFiles({ directory, isPublished: false });
    expect(withSwitches(directory).length).toBeGreaterThan(3);
    const written = await buildFiles({ directory, isPublished: true });
    expect(withSwitches(directory)).toEqual([]);
    // Nothing of the build before is left.
    expect(scriptsIn(directory)).toEqual(written.toSorted());
    expect(SWITCHES.filter((name) => existsSync(join(directory, `${name}.js`)))).toEqual([]);
    const script = "const {connect, startNode} = await import('ottla'); console.log(typeof connect, typeof startNode)";
    const library = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd: root, encoding: "utf8" });
    expect(library).toMatchObject({ stdout: "function function\n", status: 0 });
    const command = spawnSync(process.execPath, ["dist/cli/main.js", "--version"], { cwd: root, encoding: "utf8" });
    const { version } = JSON.parse(read("package.json")) as { readonly version: string };
    expect(command).toMatchObject({ status: 0, stdout: `${version}\n` });
  });

  it("is built from the files that the layer check takes for beginnings, and from no part of the simulator", async () => {
    const { forbidden } = createRequire(import.meta.url)("../../.dependency-cruiser.cjs") as LayerRules;
    const beginnings = forbidden.find(({ name }) => name === "no-dead-modules")?.module?.pathNot ?? [];
    const isBeginning = (path: string) =>
      !path.startsWith("src/sim/") && beginnings.some((pattern) => new RegExp(pattern).test(path));
    const found = filesUnder("src").filter(
      (path) => path.endsWith(".ts") && !path.endsWith(".d.ts") && isBeginning(path),
    );
    const built = [...ENTRY_POINTS, ...SWITCHES.filter((name) => name !== "base/mutant")];
    expect(built.map((name) => `src/${name}.ts`).toSorted()).toEqual(found.toSorted());
    root = mkdtempSync(join(tmpdir(), "ottla-package-"));
    await buildFiles({ directory: root, isPublished: false });
    const texts = scriptsIn(root).map((path) => readFileSync(path, "utf8"));
    // Each file of the sources is named above what came of it.
    expect(texts.some((text) => text.includes("// src/cli/main.ts\n"))).toBe(true);
    expect(texts.filter((text) => text.includes("// src/sim/"))).toEqual([]);
  });
});

interface LayerRules {
  readonly forbidden: readonly { readonly name: string; readonly module?: { readonly pathNot: readonly string[] } }[];
}

const scriptsIn = (directory: string) =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".js"))
    .map((path) => join(directory, path))
    .toSorted();

const withSwitches = (directory: string) =>
  scriptsIn(directory).filter((path) => /\b(mutant|failpoint)\(["'`]|activateMutants/.test(readFileSync(path, "utf8")));

describe("stripping planted bugs", () => {
  it("replaces each call by false and drops the import", () => {
    const source = [
      'import { mutant } from "../base/mutant.ts";',
      'import { assert } from "../base/assert.ts";',
      'const limit = mutant("M2") ? 1 : 2;',
      'if (!mutant("D-11") && limit > 1) assert(true, "mutant(x)");',
      "",
    ].join("\n");
    expect(stripMutants("a.ts", source)).toBe(
      [
        "",
        'import { assert } from "../base/assert.ts";',
        "const limit = false ? 1 : 2;",
        'if (!false && limit > 1) assert(true, "mutant(x)");',
        "",
      ].join("\n"),
    );
  });

  it("takes failpoints out; whoever asks to be told of them stays", () => {
    const source = [
      'import { failpoint } from "../base/failpoint.ts";',
      'import { onFailpoint } from "../base/failpoint.ts";',
      "await handle.datasync();",
      'failpoint("journal-synced");',
      "onFailpoint(null);",
      "",
    ].join("\n");
    expect(stripMutants("a.ts", source)).toBe(
      [
        "",
        'import { onFailpoint } from "../base/failpoint.ts";',
        "await handle.datasync();",
        "undefined;",
        "onFailpoint(null);",
        "",
      ].join("\n"),
    );
  });

  it.each([
    ["an id that is not a literal", 'import { mutant } from "../base/mutant.ts";\nif (mutant(id)) run();\n'],
    ["the switch handed on", 'import { mutant } from "../base/mutant.ts";\nrun(mutant);\n'],
    ["a failpoint beside another import", 'import { failpoint, onFailpoint } from "./failpoint.ts";\nrun();\n', 1],
    ["a failpoint handed on", 'import { failpoint } from "../base/failpoint.ts";\nrun(failpoint);\n'],
    ["two arguments", 'import { mutant } from "../base/mutant.ts";\nmutant("M2", 1);\n'],
  ])("refuses %s", (_what, source, line = 2) => {
    expect(() => stripMutants("a.ts", source)).toThrow(new RegExp(`^a\\.ts:${line}: `));
  });
});
