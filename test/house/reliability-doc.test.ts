// README.md's table of losses against docs/reliability.json, which `ottla bench reliability` wrote, and both against what is promised.
import { describe, expect, it } from "vitest";
import { withTable } from "../../scripts/docs-tables.ts";
import { ACKS_LEVELS, RELIABILITY_FAULTS } from "../../src/bench/reliability/matrix.ts";
import { parseReliability } from "../../src/bench/reliability/result-file.ts";
import { tableRows } from "../../src/bench/reliability/table.ts";
import { verdictOf } from "../../src/bench/reliability/verdict.ts";
import { read } from "./tree.ts";

const readme = read("README.md");
const result = parseReliability(read("docs/reliability.json"), "docs/reliability.json");

describe("README.md", () => {
  it("has the table that npm run docs:reliability writes", () => {
    expect(withTable(readme, "reliability")).toBe(readme);
  });

  it("shows the figures of the file: its rows, read back, are the file's", () => {
    const [, table = ""] = readme.split("<!-- reliability: made by a script, do not edit -->");
    const lines = table.split("<!-- end of reliability -->")[0]?.split("\n") ?? [];
    const rows = lines.filter((line) => line.startsWith("|")).slice(2);
    const cells = rows.map((row) =>
      row
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
    expect(cells).toEqual(tableRows(result.cells));
    expect(cells).toHaveLength(RELIABILITY_FAULTS.length * ACKS_LEVELS.length);
  });

  it("a figure that was changed by hand is noticed", () => {
    const changed = readme.replace(/^(\|[^|]*\| all \| \d+ \| \d+ \| )0 /m, "$11 ");
    expect(changed).not.toBe(readme);
    expect(withTable(changed, "reliability")).not.toBe(changed);
  });
});

describe("docs/reliability.json", () => {
  it("has every fault at every level of acknowledgement, in order", () => {
    const expected = RELIABILITY_FAULTS.flatMap(({ id, says }) =>
      ACKS_LEVELS.map((acks) => ({ fault: id, says, acks: String(acks) })),
    );
    expect(result.cells.map(({ fault, says, acks }) => ({ fault, says, acks }))).toEqual(expected);
  });

  it("keeps what is promised, and proves it", () => {
    expect(verdictOf(result)).toEqual({ exitCode: 0, broken: [], worthless: [] });
  });
});
