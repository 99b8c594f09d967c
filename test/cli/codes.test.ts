// Every code that the command line prints can be looked up with `ottla errors`.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { CLI_CODES } from "../../src/cli/codes.ts";
import { errorRows } from "../../src/cli/commands/errors.ts";
import { ERRORS } from "../../src/model/errors.ts";

const folder = resolve(import.meta.dirname, "../../src/cli");
const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => readFileSync(join(folder, name), "utf8"));
// A finding of cluster health has a nodeId beside its code and is no failure.
const used = new Set(
  sources.flatMap((text) => [
    ...[...text.matchAll(/\bcode: "([A-Z_]+)"(?!, (?:nodeId|\.\.\.about))/g)].map(([, code]) => code ?? ""),
    // One of two.
    ...[...text.matchAll(/\bcode: [^,"\n]* \? "([A-Z_]+)" : "([A-Z_]+)"/g)].flatMap(([, ...codes]) => codes),
  ]),
);

describe("codes of the command line", () => {
  it("are in the error table or in its own", () => {
    expect(used.size).toBeGreaterThan(15);
    const findings = ["NO_QUORUM", "VOTER_REFUSED", "VOTER_DISK_REPLACED", "NO_CONTROLLER", "FORMING"];
    const unknown = [...used].filter((code) => !(code in ERRORS) && !(code in CLI_CODES) && !findings.includes(code));
    expect(unknown).toEqual([]);
  });

  it("of its own are used, and are none of the error table's", () => {
    const all = sources.join("\n");
    for (const code of Object.keys(CLI_CODES)) {
      expect(code in ERRORS, code).toBe(false);
      expect(all.split(`"${code}"`).length, code).toBeGreaterThan(1);
    }
  });

  it("are found by name", () => {
    expect(errorRows("NO_CLUSTER")).toMatchObject([{ name: "NO_CLUSTER", code: null, kafkaCode: null }]);
    expect(errorRows("CORRUPT_MESSAGE")).toMatchObject([{ code: 3, retriable: true }]);
    expect(errorRows("3")).toMatchObject([{ name: "CORRUPT_MESSAGE" }]);
    expect(errorRows("NO_SUCH")).toEqual([]);
    expect(errorRows(undefined)).toHaveLength(Object.keys(ERRORS).length + Object.keys(CLI_CODES).length);
  });
});
