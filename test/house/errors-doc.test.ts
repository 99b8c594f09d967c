// docs/errors.md against the error table and the exit codes, both ways.
import { describe, expect, it } from "vitest";
import { withTable } from "../../scripts/docs-tables.ts";
import { ERRORS, type ErrorRow } from "../../src/model/errors.ts";
import { EXIT } from "../../src/model/exit-codes.ts";
import { read } from "./tree.ts";

const doc = read("docs/errors.md");
const documented = [...doc.matchAll(/^\| `([A-Z_]+)` \| (\d+) \| (-?\d+) \| (yes|no) \| ([^|]+) \|/gm)].map((match) =>
  match.slice(1),
);
const entries = Object.entries(ERRORS) as [string, ErrorRow][];

describe("docs/errors.md", () => {
  it("lists exactly the errors of the table, with code, Kafka code, retriable and meaning", () => {
    const expected = entries.map(([name, row]) => [
      name,
      String(row.code),
      String(row.kafkaCode),
      row.retriable ? "yes" : "no",
      row.meaning,
    ]);
    expect(documented).toEqual(expected);
  });

  it("lists exactly the exit codes", () => {
    const listed = [...doc.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(listed).toEqual(Object.values(EXIT));
  });

  it("is what npm run docs:errors writes", () => {
    expect(withTable(withTable(doc, "errors"), "exit-codes")).toBe(doc);
  });

  it("native codes are used once, and each row says what it means", () => {
    const codes = entries.map(([, row]) => row.code);
    expect(new Set(codes).size).toBe(codes.length);
    expect(entries.filter(([, row]) => row.meaning.trim() === "")).toEqual([]);
  });

  it("codes of the connection, and no others, say that it is closed", () => {
    const closing = entries
      .filter(([, row]) => row.hint.includes("the connection is closed"))
      .map(([, { code }]) => code);
    const ofConnection = entries.map(([, { code }]) => code).filter((code) => code >= 40 && code < 60);
    expect(closing.length).toBeGreaterThan(3);
    expect(closing).toEqual(ofConnection);
  });

  it("a table that lost a row is noticed", () => {
    const cut = doc.replace(/^\| `CORRUPT_MESSAGE`.*\n/m, "");
    expect(cut).not.toBe(doc);
    expect(withTable(cut, "errors")).not.toBe(cut);
  });
});
