// Log lines as operators' tools read them, and a log file that stays within its bound.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/platform/logger.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ottla-log-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const linesOf = (file: string) =>
  readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("logger", () => {
  it("writes one JSON object a line: ISO time, level as a word, event, the fields of its parents", () => {
    const file = join(folder, "deep", "ottla.log");
    const logger = createLogger({ destination: file, name: "1" });
    logger.info("started", { port: 7070 });
    logger.child({ component: "log" }).warn("slow", { ms: 12 });
    logger.debug("not_asked_for");
    const [first, second, ...rest] = linesOf(file);
    expect(first).toMatchObject({ level: "info", node: "1", event: "started", port: 7070 });
    expect(first?.["time"]).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
    expect(second).toMatchObject({ level: "warn", component: "log", event: "slow" });
    expect(rest).toEqual([]);
  });

  it("hides secrets and record keys", () => {
    const file = join(folder, "ottla.log");
    createLogger({ destination: file }).info("login", {
      password: "hunter2",
      token: "t0k",
      key: "k3y",
      nested: { secret: "s3c" },
    });
    expect(readFileSync(file, "utf8")).not.toMatch(/hunter2|t0k|k3y|s3c/);
  });

  it("gives errors with their stack and cause", () => {
    const file = join(folder, "ottla.log");
    createLogger({ destination: file }).error("failed", { err: new Error("outer", { cause: new Error("inner") }) });
    const { err } = linesOf(file)[0] as { readonly err: { readonly message: string; readonly stack: string } };
    expect(err.message).toContain("outer");
    expect(err.stack).toContain("inner");
  });

  it("renames the file before it grows past its bound, and keeps one older", () => {
    const file = join(folder, "ottla.log");
    const logger = createLogger({ destination: file, fileBytesMax: 2000 });
    for (let count = 0; count < 100; count++) logger.info("tick", { count });
    expect(statSync(file).size).toBeLessThanOrEqual(2000);
    expect(statSync(`${file}.1`).size).toBeLessThanOrEqual(2000);
    expect(existsSync(`${file}.2`)).toBe(false);
    const kept = [...linesOf(`${file}.1`), ...linesOf(file)].map((line) => line["count"]);
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, index) => 100 - kept.length + index));
  });

  it("goes on when nobody takes its lines", () => {
    const logger = createLogger({ destination: 999_999 });
    expect(() => logger.info("into_the_void")).not.toThrow();
  });
});
