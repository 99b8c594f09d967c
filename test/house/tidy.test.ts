// The house rules on the whole tree. What each rule is for, and that it can fail, is in alarms.test.ts.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { faultsOf, strayFiles } from "./rules.ts";
import { filesUnder, ROOT, read, trackedFiles } from "./tree.ts";

const sources = ["src", "test", "scripts", "bench"].flatMap(filesUnder).filter((path) => path.endsWith(".ts"));

describe("tidy", () => {
  it("sees the sources", () => {
    expect(sources.length).toBeGreaterThan(40);
  });

  it("every source file keeps the house rules", () => {
    expect(sources.flatMap((path) => faultsOf({ path, text: read(path) }))).toEqual([]);
  });

  it("nothing but sources is under src/", () => {
    expect(strayFiles(filesUnder("src"))).toEqual([]);
  });

  it("src/README.md has exactly one line for each folder of src/", () => {
    const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) =>
        name === "wire" ? readdirSync(join(ROOT, "src/wire")).map((sub) => `wire/${sub}`) : [name],
      )
      .filter((path) => filesUnder(`src/${path}`).length > 0);
    const listed = [...read("src/README.md").matchAll(/^\| `([a-z/-]+)\/` \|/gm)].map(([, folder = ""]) => folder);
    expect(listed.toSorted()).toEqual(folders.toSorted());
  });
});

describe("planted bugs", () => {
  const ids = new Set(
    sources
      .filter((path) => path.startsWith("src/"))
      .flatMap((path) => [...read(path).matchAll(/\bmutant\("([^"]+)"\)/g)].map(([, id = ""]) => id)),
  );

  it("each is switched on by a test or by the run that catches it", () => {
    const users = sources.filter((path) => /^(test|scripts)\//.test(path)).map(read);
    const switching = users.filter((text) => /activateMutants|--mutant/.test(text)).join("\n");
    expect(ids.size).toBeGreaterThan(0);
    expect([...ids].filter((id) => !switching.includes(`"${id}"`))).toEqual([]);
  });
});

/** Things of one machine or of one person's workplace, which mean nothing to anybody else. */
const PRIVATE: readonly RegExp[] = [
  /(?<![\w.])\/(work|root|home\/\w+|Users\/\w+)\//,
  /\b[\w-]+\.(internal|corp|lan|localdomain)\b(?!["']?\s*[(=:])/,
  /\b(10\.\d+|192\.168|172\.(1[6-9]|2\d|3[01]))\.\d+\.\d+\b/,
  /\bissues (show|comment|close|list)\b/,
  /\b(DESIGN|decisions|toolchain|kafka-semantics|reliability)\.md\b/,
];

describe("what others see", () => {
  it("names no private host, machine path or tool from outside the repository", () => {
    const own = "test/house/tidy.test.ts";
    const found = trackedFiles()
      .filter((path) => path !== own && /\.(ts|cjs|json|jsonc|md|yml|sh|txt)$|^\.ci\/|^\.npmrc$|^LICENSE$/.test(path))
      .flatMap((path) =>
        read(path)
          .split("\n")
          .flatMap((line, index) =>
            PRIVATE.some((pattern) => pattern.test(line)) ? [`${path}:${index + 1}: ${line.trim().slice(0, 120)}`] : [],
          ),
      );
    expect(found).toEqual([]);
  });

  it("the lockfile holds no host names", () => {
    expect(read("package-lock.json")).not.toContain('"resolved"');
    expect(read(".npmrc")).toContain("omit-lockfile-registry-resolved=true");
  });

  it("package.json pins exact versions, and its scripts run files that exist", () => {
    const { dependencies, devDependencies, scripts } = JSON.parse(read("package.json")) as Record<
      string,
      Record<string, string>
    >;
    const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
      ([, version]) => !/^(npm:@?[\w./-]+@)?\d+\.\d+\.\d+$/.test(version),
    );
    expect(loose).toEqual([]);
    const run = Object.values(scripts ?? {}).flatMap((script) =>
      [...script.matchAll(/tsx (\S+\.ts)/g)].map(([, path]) => path ?? ""),
    );
    expect(run.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});
