// docs/operations.md against the words that programs are told.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { CONDITIONS, FINDING_CODES } from "../../src/cli/cluster/diagnosis.ts";
import { NODE_WORDS, ROLE_WORDS } from "../../src/cli/cluster/view.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { ROOT } from "./support.ts";

const doc = readFileSync(join(ROOT, "docs/operations.md"), "utf8");
const cells = doc.split("\n").filter((line) => line.startsWith("|"));
const firstCell = (line: string) => line.split("|")[1]?.trim() ?? "";
const words = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, word]) => word ?? "");

/** The rows of the table whose heading begins so. */
function tableAfter(heading: string): string[] {
  const at = cells.findIndex((line) => firstCell(line) === heading);
  const rows = cells.slice(at + 2);
  const lines = doc.split("\n");
  const start = lines.indexOf(cells[at] ?? "");
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return rows.slice(0, end - start - 2);
}

const namesOf = (command: Command): string[] => [command.name(), ...command.aliases()];

describe("docs/operations.md", () => {
  it("has every state of a node, and no other", () => {
    expect(
      tableAfter("`state`")
        .flatMap((row) => words(firstCell(row)))
        .toSorted(),
    ).toEqual([...NODE_WORDS].toSorted());
  });

  it("has every condition and finding of health, and no other", () => {
    const rows = tableAfter("condition");
    expect(new Set(rows.flatMap((row) => words(firstCell(row))))).toEqual(new Set(CONDITIONS));
    const codes = rows.flatMap((row) => words(row.split("|")[2] ?? ""));
    expect(codes.toSorted()).toEqual([...FINDING_CODES].toSorted());
  });

  it("has every role and every verb of `cluster`", () => {
    for (const role of ROLE_WORDS) expect(doc).toContain(`\`${role}\``);
    const cluster = buildProgram().commands.find((command) => command.name() === "cluster");
    const verbs = cluster?.commands.map((command) => command.name()) ?? [];
    expect(verbs.length).toBeGreaterThan(9);
    for (const verb of verbs) expect(doc, verb).toMatch(new RegExp(`cluster ${verb}\\b`));
  });

  it("has every verb of `quorum`, and no command that there is not", () => {
    const program = buildProgram();
    const groups = new Map(program.commands.map((group) => [group.name(), group.commands.flatMap(namesOf)]));
    for (const verb of groups.get("quorum") ?? []) expect(doc, verb).toContain(`ottla quorum ${verb}`);
    const named = [...doc.matchAll(/\bottla (cluster|quorum|server|topic|log|broker) ([a-z-]+)/g)];
    expect(named.length).toBeGreaterThan(20);
    for (const [text, group = "", verb = ""] of named) expect(groups.get(group), text).toContain(verb);
  });
});
