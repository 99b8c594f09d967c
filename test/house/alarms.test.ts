// Each wall of the house is shown to hold: a fault planted in a temporary copy must set off its alarm, by name.
import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { layerFaults } from "../../scripts/layers.ts";
import { runAll, runUntilFailure } from "../../scripts/stages.ts";
import { CORE_FOLDERS, faultsOf, strayFiles } from "./rules.ts";
import { copyOf, plant, runTool } from "./tree.ts";

const CONFIGS = ["package.json", "tsconfig.json", "tsconfig.base.json", "tsconfig.core.json", "tsconfig.test.json"];
/** Tools are started as processes here; on a loaded machine that takes its time. */
const SLOW_MS = 300_000;
const copies: string[] = [];

function freshCopy(paths: readonly string[]): string {
  const root = copyOf(paths);
  copies.push(root);
  return root;
}

afterAll(() => {
  for (const root of copies) rmSync(root, { recursive: true, force: true });
});

/** path -> source, and the words that the alarm must say about it. */
const LAYER_FAULTS: readonly { readonly path: string; readonly source: string; readonly says: string }[] = [
  {
    path: "src/replication/planted.ts",
    source: 'import { openLogStore } from "../storage/log-store.ts";\nexport const planted = openLogStore;\n',
    says: "replication-imports: src/replication/planted.ts -> src/storage/log-store.ts",
  },
  {
    path: "src/metadata/planted.ts",
    source: 'import type { ReplicaLog } from "../storage/types.ts";\nexport type Planted = ReplicaLog;\n',
    says: "metadata-imports: src/metadata/planted.ts -> src/storage/types.ts",
  },
  {
    path: "src/storage/planted.ts",
    source: 'import { readFileSync } from "node:fs";\nexport const planted = readFileSync;\n',
    says: "storage-imports: src/storage/planted.ts -> fs",
  },
  {
    path: "src/client/planted.ts",
    source: 'import { pack } from "msgpackr";\nexport const planted = pack;\n',
    says: "client-imports: src/client/planted.ts -> ",
  },
  {
    path: "src/model/planted.ts",
    source: 'import { z } from "zod";\nexport const planted = z;\n',
    says: "model-imports: src/model/planted.ts -> ",
  },
  {
    path: "src/cli/planted.ts",
    source: 'import { planted as other } from "../sim/planted.ts";\nexport const planted = other;\n',
    says: "cli-imports: src/cli/planted.ts -> src/sim/planted.ts",
  },
  {
    path: "src/sim/planted.ts",
    source: 'import { other } from "./planted-too.ts";\nexport const planted = other;\n',
    says: "no-circular: src/sim/planted",
  },
  {
    path: "src/sim/planted-too.ts",
    source: 'import { planted } from "./planted.ts";\nexport const other = (): unknown => planted;\n',
    says: "no-circular: src/sim/planted",
  },
  {
    path: "src/ports/planted.ts",
    source: "export const planted = 1;\n",
    says: "no-dead-modules: src/ports/planted.ts",
  },
  {
    path: "src/elsewhere/planted.ts",
    source: 'import { assert } from "../base/assert.ts";\nexport const planted = assert;\n',
    says: "unknown-folder: src/elsewhere/planted.ts",
  },
];

describe("the layer check", { timeout: SLOW_MS }, () => {
  let faults: string[] = [];

  beforeAll(() => {
    const root = freshCopy(["src", ".dependency-cruiser.cjs", ...CONFIGS]);
    plant(root, "src/storage/log-store.ts", "export const openLogStore = 1;\n");
    for (const { path, source } of LAYER_FAULTS) plant(root, path, source);
    faults = layerFaults(root);
  }, SLOW_MS);

  it.each(LAYER_FAULTS)("goes off: $says", ({ says }) => {
    expect(faults.filter((fault) => fault.startsWith(says))).not.toEqual([]);
  });

  it("fails when it saw no module at all", () => {
    const root = freshCopy(["src/base", ...CONFIGS]);
    const blind = "module.exports = { forbidden: [], options: { exclude: { path: '.*' } } };\n";
    plant(root, ".dependency-cruiser.cjs", blind);
    expect(layerFaults(root)).toContainEqual(expect.stringMatching(/^the layer check saw 0 of \d+ files/));
  });

  it("fails when there is nothing to see", () => {
    const root = freshCopy([".dependency-cruiser.cjs", ...CONFIGS]);
    plant(root, "src/readme.md", "");
    expect(layerFaults(root)).not.toEqual([]);
  });
});

describe("the compiler", { timeout: SLOW_MS }, () => {
  it.each([
    ["a Node built-in", 'import { readFileSync } from "node:fs";\nexport const planted = readFileSync;\n', "TS2591"],
    ["a Node global", "export const planted = (): void => process.exit(1);\n", "TS2591"],
    ["Buffer", "export const planted = Buffer.alloc(1);\n", "TS2591"],
    ["a timer", "export const planted = (): unknown => setTimeout(() => 1, 1);\n", "TS2304"],
    ["console", 'export const planted = (): void => console.log("x");\n', "TS2584"],
    ["an enum", "export enum Planted {\n  One,\n}\n", "TS1294"],
  ])("refuses %s in a core folder", (_what, source, code) => {
    const root = freshCopy([...CONFIGS, "src/base/globals.d.ts"]);
    plant(root, "src/replication/planted.ts", `// Planted.\n${source}`);
    const { code: exit, output } = runTool(root, "tsc", ["-p", "tsconfig.core.json", "--noEmit"]);
    expect(output).toMatch(new RegExp(`planted\\.ts.*${code}`));
    expect(exit).not.toBe(0);
  });

  it("refuses a type error in a test", () => {
    const root = freshCopy(CONFIGS);
    plant(root, "src/base/fine.ts", "// Planted.\nexport const fine = 1;\n");
    plant(
      root,
      "test/base/planted.test.ts",
      'import { fine } from "../../src/base/fine.ts";\nexport const text: string = fine;\n',
    );
    const { code, output } = runTool(root, "tsc", ["-p", "tsconfig.test.json", "--noEmit"]);
    expect(output).toMatch(/planted\.test\.ts.*TS2322/);
    expect(code).not.toBe(0);
  });
});

describe("the linter", { timeout: SLOW_MS }, () => {
  const FLOATING =
    "// Planted.\nasync function save(): Promise<void> {}\nexport function run(): void {\n  save();\n}\n";
  const lint = (path: string, source: string, flags: readonly string[]): { code: number; output: string } => {
    const root = freshCopy([...CONFIGS, ".oxlintrc.json"]);
    plant(root, path, source);
    return runTool(root, "oxlint", [...flags, "--deny-warnings", "src"]);
  };

  it("goes off on a floating promise, and only when it is type-aware", () => {
    const aware = lint("src/cli/planted.ts", FLOATING, ["--type-aware"]);
    expect(aware.output).toContain("no-floating-promises");
    expect(aware.code).toBe(1);
    const blind = lint("src/cli/planted.ts", FLOATING, []);
    expect(blind).toMatchObject({ code: 0 });
  });

  it.each([
    ["src/storage/planted.ts", "export const now = (): number => Date.now();\n", "no-restricted-globals"],
    ["src/broker/planted.ts", "export const wait = (): unknown => setTimeout(() => 1, 1);\n", "no-restricted-globals"],
    ["src/client/planted.ts", "export const draw = (): number => Math.random();\n", "no-restricted-properties"],
    ["src/cli/planted.ts", "export default 1;\n", "no-default-export"],
    ["src/cli/planted.ts", "export const loose = (value: any): unknown => value;\n", "no-explicit-any"],
    [
      "src/cli/planted.ts",
      "export const sure = (value: string | null): number => value!.length;\n",
      "no-non-null-assertion",
    ],
    ["src/cli/planted.ts", 'export const text: string = JSON.parse("1");\n', "no-unsafe-assignment"],
    [
      "src/cli/planted.ts",
      'export function miss(kind: "a" | "b"): number {\n  switch (kind) {\n    case "a":\n      return 1;\n  }\n  return 0;\n}\n',
      "switch-exhaustiveness-check",
    ],
  ])("goes off in %s on %j", (path, source, rule) => {
    const { code, output } = lint(path, `// Planted.\n${source}`, ["--type-aware"]);
    expect(output).toContain(rule);
    expect(code).toBe(1);
  });
});

describe("the test runner", { timeout: SLOW_MS }, () => {
  it("fails on a failing test, on a file that does not load, and on an empty selection", () => {
    const root = freshCopy(["package.json", "vitest.config.ts"]);
    const head = 'import { expect, it } from "vitest";\n';
    plant(root, "test/pass.test.ts", `${head}it("passes", () => expect(1).toBe(1));\n`);
    plant(root, "test/fail.test.ts", `${head}it("fails", () => expect(1).toBe(2));\n`);
    plant(root, "test/broken.test.ts", `${head}throw new Error("planted");\n`);
    const run = (filter: string): number => runTool(root, "vitest", ["run", filter]).code;
    expect({ pass: run("pass"), fail: run("fail"), broken: run("broken"), none: run("no-such-test") }).toEqual({
      pass: 0,
      fail: 1,
      broken: 1,
      none: 1,
    });
  });

  it("a stage that fails gives the run its exit code", () => {
    const stage = (code: number): { name: string; command: string[] } => ({
      name: `exits ${code}`,
      command: [process.execPath, "-e", `process.exit(${code})`],
    });
    const said: string[] = [];
    const say = (line: string): void => void said.push(line);
    expect(runUntilFailure([stage(0), stage(7), stage(8)], say)).toBe(7);
    expect(runAll([stage(0), stage(7), stage(8), stage(0)], say)).toBe(7);
    expect(said.at(-1)).toBe("FAILED: exits 7, exits 8");
    expect(runAll([stage(0), { name: "no such tool", command: ["ottla-no-such-tool"] }], say)).toBe(1);
    expect(runAll([stage(0)], say)).toBe(0);
    expect(said.at(-1)).toBe("all 1 stages passed");
  });
});

describe("the house rules", () => {
  const lines = (count: number, line: string): string => Array.from({ length: count }, () => line).join("\n");
  const faults = (path: string, text: string): string => faultsOf({ path, text }).join("\n");
  const word = (...parts: string[]): string => parts.join("");

  it.each([
    ["a file over 800 lines", "src/base/a.ts", `// A.\n${lines(800, "// x")}\n`, /801 lines, at most 800/],
    ["a file over 500 lines without a reason", "src/base/a.ts", `// A.\n${lines(500, "// x")}\n`, /asks for a line/],
    [
      "a function over 70 lines",
      "scripts/a.ts",
      `// A.\nfunction long() {\n${lines(69, "  run();")}\n}\n`,
      /a function of 71 lines/,
    ],
    [
      "a method over 70 lines",
      "test/a.ts",
      `// A.\nclass A {\n  long() {\n${lines(69, "run();")}\n  }\n}\n`,
      /a function of 71 lines/,
    ],
    ["a missing first line", "src/base/a.ts", "export const a = 1;\n", /first line says/],
    ["a default export", "src/base/a.ts", "// A.\nexport default function a() {}\n", /default export/],
    ["an any", "test/a.ts", "// A.\nconst a = (b: any) => b;\n", /:2: any/],
    ["a non-null assertion", "src/base/a.ts", "// A.\nexport const a = (b?: string) => b!;\n", /non-null/],
    ["an open end", "docs/a.ts", `// A.\n// ${word("FIX", "ME")} later\n`, /open end/],
    ["a top-level let", "src/base/a.ts", "// A.\nlet count = 0;\n", /mutable state/],
    ["a top-level Map", "src/base/a.ts", "// A.\nconst seen = new Map<string, number>();\n", /mutable state/],
  ])("go off on %s", (_what, path, text, alarm) => {
    expect(faults(path, text)).toMatch(alarm);
  });

  it.each([
    [
      "a file with a reason to be long",
      "src/base/a.ts",
      `// A.\n// size: one table, read as a whole\n${lines(600, "// x")}\n`,
    ],
    ["a function of 70 lines", "src/base/a.ts", `// A.\nfunction long() {\n${lines(68, "  run();")}\n}\n`],
    ["a long list of tests", "test/a.ts", `// A.\ndescribe("a", () => {\n${lines(90, "run();")}\n});\n`],
    ["members and keys of a banned name", "src/broker/a.ts", "// A.\nthis.process(a.Date, { console: 1 });\n"],
    ["a parameter of a banned name", "src/sim/a.ts", "// A.\nconst stop = (process: Running) => process.kill();\n"],
    ["a filled Map that nobody changes", "src/base/a.ts", '// A.\nconst names = new Map([["a", 1]]);\n'],
    ["the clock outside the cores", "src/platform/a.ts", "// A.\nexport const now = () => Date.now();\n"],
  ])("stay quiet on %s", (_what, path, text) => {
    expect(faults(path, text)).toBe("");
  });

  it.each(CORE_FOLDERS)("banned globals are banned in %s", (folder) => {
    const text =
      "// A.\nDate.now();\nMath.random();\nsetTimeout(run, 1);\nconsole.log(1);\nprocess.exit();\nnew Buffer(1);\n";
    const found = faultsOf({ path: `src/${folder}/a.ts`, text });
    expect(found.map((fault) => fault.split(":")[1])).toEqual(["2", "3", "4", "5", "6", "7"]);
  });

  it("a built file under src/ is found", () => {
    expect(strayFiles(["src/base/a.ts", "src/base/a.js", "src/base/a.js.map", "src/README.md", "dist/a.js"])).toEqual([
      "src/base/a.js",
      "src/base/a.js.map",
    ]);
  });
});
