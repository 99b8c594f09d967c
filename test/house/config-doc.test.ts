// docs/configuration.md against the configuration schema, both ways.
import { describe, expect, it } from "vitest";
import { withTable } from "../../scripts/docs-tables.ts";
import { brokerConfigKeys, brokerConfigOf, runtimeTopicConfigKeys } from "../../src/model/config.ts";
import { read } from "./tree.ts";

const doc = read("docs/configuration.md");

describe("docs/configuration.md", () => {
  it("lists exactly the keys of the schema, each with what it is", () => {
    const rows = [...doc.matchAll(/^\| `([a-z.]+)` \|.*\| ([^|]+) \|$/gm)];
    expect(rows.map(([, key]) => key)).toEqual([
      ...Object.keys(brokerConfigKeys),
      ...Object.keys(runtimeTopicConfigKeys),
    ]);
    expect(rows.filter(([, , about]) => (about ?? "").trim().length < 10)).toEqual([]);
  });

  it("states the defaults that the schema fills in", () => {
    const config = brokerConfigOf({ "node.id": 1, "data.dir": "data" });
    for (const [key, value] of Object.entries(config)) {
      if (key !== "node.id" && key !== "data.dir") expect(doc).toContain(`| \`${key}\` | ${value} |`);
    }
  });

  it("is what npm run docs:config writes", () => {
    expect(withTable(doc, "config")).toBe(doc);
  });
});
