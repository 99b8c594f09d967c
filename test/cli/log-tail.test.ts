// The end of a log file, and the bound of files that others append to.
import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { boundFile, lastLogLines, tailOf } from "../../src/cli/log-tail.ts";
import { temporaryFolder } from "./support.ts";

const folder = temporaryFolder();
afterAll(folder.remove);
const file = join(folder.path, "log");

describe("the end of a log", () => {
  it("is the last whole lines, without empty ones and without one that is being written", () => {
    writeFileSync(file, "one\n\ntwo\nthree\nfou");
    expect(tailOf(file, 2)).toEqual({ lines: ["two", "three"], endByte: 15 });
    appendFileSync(file, "r\n");
    expect(tailOf(file, 2)).toEqual({ lines: ["three", "four"], endByte: 20 });
    expect(tailOf(file, 0)).toEqual({ lines: [], endByte: 20 });
    expect(tailOf(join(folder.path, "none"), 2)).toEqual({ lines: [], endByte: 0 });
  });

  it("of a long file begins with a whole line", () => {
    const lines = Array.from({ length: 5000 }, (_, index) => `line ${index} é`);
    writeFileSync(file, `${lines.join("\n")}\n`);
    const tail = tailOf(file, 4000).lines;
    expect(tail.length).toBeGreaterThan(1000);
    expect(lines.slice(-tail.length)).toEqual(tail);
  });

  it("is all the lines that were asked for, of the length that lines have", () => {
    const lines = Array.from({ length: 2000 }, (_, index) => `{"event":"e","index":${index},"x":"${"x".repeat(250)}"}`);
    writeFileSync(file, `${lines.join("\n")}\n`);
    for (const count of [100, 1000]) expect(tailOf(file, count).lines).toEqual(lines.slice(-count));
  });

  it("is clipped for a person", () => {
    writeFileSync(file, `${"x".repeat(500)}\n`);
    expect(lastLogLines(file, 1)).toEqual([`${"x".repeat(197)}...`]);
    expect(lastLogLines(folder.path, 1)).toEqual([`${folder.path} cannot be read: EISDIR`]);
  });
});

describe("the bound", () => {
  it("keeps what there was as another file, and who appends goes on at the beginning", () => {
    writeFileSync(file, "");
    const fd = openSync(file, "a");
    writeSync(fd, "x".repeat(100));
    boundFile(file, 100);
    expect(existsSync(`${file}.1`)).toBe(false);
    writeSync(fd, "y");
    boundFile(file, 100);
    writeSync(fd, "z");
    closeSync(fd);
    expect(readFileSync(file, "utf8")).toBe("z");
    expect(statSync(`${file}.1`).size).toBe(101);
    boundFile(join(folder.path, "none"), 1);
  });
});
