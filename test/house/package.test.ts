// What is published: no simulator, no tests, no planted bug that a switch could wake.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { stripMutants, stripTree } from "../../scripts/strip-mutants.ts";
import { needsBuild, ROOT } from "./tree.ts";

let root = "";

afterEach(() => {
  if (root !== "") rmSync(root, { recursive: true, force: true });
  root = "";
});

interface PackReport {
  readonly files: readonly { readonly path: string }[];
}

describe("the package", { timeout: 120_000 }, () => {
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

  it("has no planted bug after stripping, and still loads", (context) => {
    needsBuild(context);
    root = mkdtempSync(join(tmpdir(), "ottla-package-"));
    cpSync(join(ROOT, "dist"), join(root, "dist"), { recursive: true });
    rmSync(join(root, "dist/sim"), { recursive: true, force: true });
    cpSync(join(ROOT, "package.json"), join(root, "package.json"));
    symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
    expect(stripTree(join(root, "dist"))).toBeGreaterThan(0);
    const left = readdirSync(join(root, "dist"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".js"))
      .filter((path) =>
        /\b(mutant|failpoint)\(["'`]|base\/mutant/.test(readFileSync(join(root, "dist", path), "utf8")),
      );
    expect(left).toEqual([]);
    const script = "const {connect, startNode} = await import('ottla'); console.log(typeof connect, typeof startNode)";
    const library = spawnSync(process.execPath, ["--input-type=module", "-e", script], { cwd: root, encoding: "utf8" });
    expect(library).toMatchObject({ stdout: "function function\n", status: 0 });
    const command = spawnSync(process.execPath, ["dist/cli/main.js", "--help"], { cwd: root, encoding: "utf8" });
    expect(command).toMatchObject({ status: 0, stdout: expect.stringContaining("ottla") });
  });
});

describe("stripping planted bugs", () => {
  it("replaces each call by false and drops the import", () => {
    const source = [
      'import { mutant } from "../base/mutant.js";',
      'import { assert } from "../base/assert.js";',
      'const limit = mutant("M2") ? 1 : 2;',
      'if (!mutant("D-11") && limit > 1) assert(true, "mutant(x)");',
      "",
    ].join("\n");
    expect(stripMutants("a.js", source)).toBe(
      [
        "",
        'import { assert } from "../base/assert.js";',
        "const limit = false ? 1 : 2;",
        'if (!false && limit > 1) assert(true, "mutant(x)");',
        "",
      ].join("\n"),
    );
  });

  it("takes failpoints out; whoever asks to be told of them stays", () => {
    const source = [
      'import { failpoint } from "../base/failpoint.js";',
      'import { onFailpoint } from "../base/failpoint.js";',
      "await handle.datasync();",
      'failpoint("journal-synced");',
      "onFailpoint(null);",
      "",
    ].join("\n");
    expect(stripMutants("a.js", source)).toBe(
      [
        "",
        'import { onFailpoint } from "../base/failpoint.js";',
        "await handle.datasync();",
        "undefined;",
        "onFailpoint(null);",
        "",
      ].join("\n"),
    );
  });

  it.each([
    ["an id that is not a literal", 'import { mutant } from "../base/mutant.js";\nif (mutant(id)) run();\n'],
    ["the switch handed on", 'import { mutant } from "../base/mutant.js";\nrun(mutant);\n'],
    ["a failpoint beside another import", 'import { failpoint, onFailpoint } from "./failpoint.js";\nrun();\n', 1],
    ["a failpoint handed on", 'import { failpoint } from "../base/failpoint.js";\nrun(failpoint);\n'],
    ["two arguments", 'import { mutant } from "../base/mutant.js";\nmutant("M2", 1);\n'],
  ])("refuses %s", (_what, source, line = 2) => {
    expect(() => stripMutants("a.js", source)).toThrow(new RegExp(`^a\\.js:${line}: `));
  });
});
