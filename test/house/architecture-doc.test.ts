// docs/architecture.md against the allow-lists, and the links of all docs.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { layerTable, withTable } from "../../scripts/docs-tables.ts";
import { filesUnder, ROOT, read } from "./tree.ts";

describe("docs", () => {
  it("architecture.md holds the allow-lists of the layer check", () => {
    const doc = read("docs/architecture.md");
    expect(layerTable()).toContain("| `replication` | base, model |");
    expect(withTable(doc, "layers")).toBe(doc);
  });

  it("development.md gives a reason for each dependency, and names only commands that exist", () => {
    const doc = read("docs/development.md");
    const { dependencies, devDependencies, scripts } = JSON.parse(read("package.json")) as Record<
      string,
      Record<string, string>
    >;
    const listed = [...doc.matchAll(/^\| ((?:`[^`]+`(?:, )?)+) \| \S/gm)].flatMap(([, names = ""]) =>
      [...names.matchAll(/`([@\w][\w./@-]*)`/g)].map(([, name]) => name),
    );
    expect(listed).toEqual(expect.arrayContaining(Object.keys({ ...dependencies, ...devDependencies })));
    const commands = [...doc.matchAll(/`(?:npm run )?([a-z]+:[a-z]+|(?<=npm run )[a-z-]+)/g)].map(
      ([, name = ""]) => name,
    );
    expect(commands.length).toBeGreaterThan(8);
    expect(commands.filter((name) => scripts?.[name] === undefined)).toEqual([]);
  });

  it("every link within the repository leads somewhere", () => {
    const documents = ["README.md", "src/README.md", ...filesUnder("docs")].filter((path) => path.endsWith(".md"));
    const broken = documents.flatMap((path) =>
      [...read(path).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)]
        .filter(([, target = "", anchor]) => !leadsSomewhere(path, target, anchor))
        .map(([link]) => `${path}: ${link}`),
    );
    expect(documents.length).toBeGreaterThan(4);
    expect(broken).toEqual([]);
  });
});

function leadsSomewhere(from: string, target: string, anchor: string | undefined): boolean {
  const path = target === "" ? from : join(dirname(from), target);
  if (!existsSync(join(ROOT, path))) return false;
  return anchor === undefined || headings(read(path)).has(anchor);
}

/** The anchors that a Markdown page gets for its headings. */
const headings = (text: string): Set<string> =>
  new Set(
    [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
