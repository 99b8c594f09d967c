// ottla log dump|verify on the files that a real node left, whole and damaged.
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureBuilt, json, ottla, outputMatching, SMALL_NODE, start, temporaryFolder } from "./support.ts";

const folder = temporaryFolder();
const dir = join(folder.path, "d");
const segment = "t-0/00000000000000000000.log";

beforeAll(async () => {
  ensureBuilt();
  const args = ["server", "start", "--node-id", "1", "--data-dir", dir, "--listeners", "ws://127.0.0.1:0", "-q"];
  const node = start([...args, ...SMALL_NODE.flatMap((pair) => ["-X", pair])]);
  const [, address = ""] = await outputMatching(node, "stdout", /ready ws:\/\/(\S+)/);
  const env = { OTTLA_BOOTSTRAP: address };
  await ottla(["topic", "create", "t"], { env });
  for (const text of ["a\nb\nc\n", "d\n", "e\nf\n"]) await ottla(["produce", "t"], { env, input: text });
  node.kill("SIGTERM");
  await new Promise((resolve) => node.once("close", resolve));
});
afterAll(folder.remove);

function copy(): string {
  const target = join(folder.path, `copy-${readdirSync(folder.path).length}`);
  cpSync(dir, target, { recursive: true });
  return target;
}

describe("log dump", () => {
  it("prints a row per batch", async () => {
    const { code, stdout, stderr } = await ottla(["log", "dump", join(dir, segment)]);
    expect(stderr).toBe("3 batches\n");
    const rows = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t"));
    const columns = ["POSITION", "BYTES", "BASE", "LAST", "EPOCH", "RECORDS", "TIMESTAMP", "CODEC", "KIND"];
    expect(rows[0]).toEqual([...columns, "PRODUCER", "SEQUENCE"]);
    // Each process is a producer of its own.
    expect(rows.slice(1).map((row) => row.slice(9))).toEqual(
      [0, 1, 2].map(() => [expect.stringMatching(/^\d+\/0$/), "0"]),
    );
    expect(rows.slice(1).map((row) => [row[2], row[3], row[5], row[7], row[8]])).toEqual([
      ["0", "2", "3", "none", "data"],
      ["3", "3", "1", "none", "data"],
      ["4", "5", "2", "none", "data"],
    ]);
    expect(code).toBe(0);
    const lines = (await ottla(["log", "dump", join(dir, segment), "--json"])).stdout.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { _command: "log.dump", _version: 1, baseOffset: 0, lastOffset: 2, recordCount: 3 },
      { baseOffset: 3 },
      { baseOffset: 4 },
    ]);
  });

  it("prints what lies beside a segment, with the offsets of the log; damage is told", async () => {
    const beside = copy();
    const base = segment.slice(0, -".log".length).replace(/0{20}$/, "00000000000000000100");
    const write = (suffix: string, bytes: readonly number[]): string => {
      const path = join(beside, base + suffix);
      writeFileSync(path, Uint8Array.from(bytes));
      return path;
    };
    const index = await ottla(["log", "dump", write(".index", [0, 0, 0, 7, 0, 0, 4, 0])]);
    expect(index).toMatchObject({ code: 0, stdout: "LAST\tPOSITION\n107\t1024\n", stderr: "1 row\n" });
    const times = write(".timeindex", [0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 9]);
    expect((await ottla(["log", "dump", times])).stdout).toBe("TIMESTAMP\tLAST\n1700000000000\t109\n");
    const json = JSON.parse((await ottla(["log", "dump", times, "--json"])).stdout) as unknown;
    expect(json).toMatchObject({ _command: "log.dump", timestamp: 1_700_000_000_000, lastOffset: 109 });
    expect(await ottla(["log", "dump", write(".index", [1, 2, 3])])).toMatchObject({ code: 1, stdout: "" });
    expect(await ottla(["log", "dump", write(".ident", [1, 2, 3])])).toMatchObject({ code: 1, stdout: "" });
    const verified = await ottla(["log", "verify", join(beside, `${base}.index`)]);
    expect(verified).toMatchObject({ code: 2, stdout: "" });
    expect(verified.stderr).toMatch(/it is checked with its segment, which is .*\.log\n/);
  });

  it("takes segment files only, and says what it was given; no header before an error", async () => {
    const cases: [string, RegExp][] = [
      [dir, /it is a directory\nhint: log dump takes a segment file/],
      [join(dir, "superblock"), /no segment file\nhint: /],
    ];
    for (const [path, pattern] of cases) {
      const { code, stdout, stderr } = await ottla(["log", "dump", path]);
      expect(stderr).toMatch(/^error\[NO_SEGMENT_FILE\]: /);
      expect(stderr).toMatch(pattern);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    }
    const junk = join(folder.path, "junk.log");
    writeFileSync(junk, "x".repeat(200));
    expect(await ottla(["log", "dump", junk])).toMatchObject({ code: 1, stdout: "" });
  });

  it("prints a node's quorum state and every entry of its metadata log", async () => {
    const { code, stdout, stderr } = await ottla(["log", "dump", join(dir, "metadata")]);
    expect(stdout).toMatch(/^term \d+, voted for 1:\S{22}; 1 start\nlog from 0 \(term 0\), known to be synced/);
    expect(stdout).toMatch(/\nPOSITION\tBYTES\tINDEX\tTERM\tSYNCED\tTIMESTAMP\tKIND\tCONTENT\n/);
    expect(stdout).toMatch(/\t0\t1\t0\t\d+\tconfiguration\t\{"clusterId":".*"voters":\["1:\S{22}"\]/);
    expect(stdout).toMatch(/\tcommand\t\[.*\{"type":"topic",/);
    expect(stderr).toMatch(/^\d+ entries\n$/);
    expect(code).toBe(0);
    const file = join(dir, "metadata", "00000000000000000000.log");
    const lines = (await ottla(["log", "dump", file, "--json"])).stdout.trimEnd().split("\n");
    const entries = lines.map((line) => JSON.parse(line) as unknown);
    expect(entries.slice(0, 2)).toMatchObject([
      { _command: "log.dump", part: "entry", index: 0, term: 1, kind: "configuration", content: { learners: [] } },
      { index: 1, kind: "leaderStart", content: null },
    ]);
  });

  it("does not know a file that is not there", async () => {
    const { code, stderr } = await ottla(["log", "dump", join(dir, "none.log")]);
    expect(stderr).toMatch(/^error\[FILE_UNREADABLE\]: .*none\.log: no such file/);
    expect(code).toBe(4);
  });
});

describe("log verify", () => {
  it("finds nothing on a whole directory", async () => {
    const { code, stdout, stderr } = await ottla(["log", "verify", dir]);
    expect(stderr).toContain("all good");
    expect(stdout).toMatch(new RegExp(`\\n${segment}\\t0\\t6\\t3\\t6\\t\\d+\\t0\\tok\\n`));
    expect(code).toBe(0);
    expect((await ottla(["log", "verify", `${join(dir, "t-0")}/`])).code).toBe(0);
  });

  it("takes one segment file too", async () => {
    const { code, stdout, stderr } = await ottla(["log", "verify", join(dir, segment)]);
    expect(stderr).toBe("segment: 1 file, all good\n");
    expect(stdout).toMatch(/\n00000000000000000000\.log\t0\t6\t3\t6\t\d+\t0\tok\n/);
    expect(code).toBe(0);
    const damaged = join(folder.path, "alone", "00000000000000000000.log");
    mkdirSync(dirname(damaged));
    writeFileSync(damaged, readFileSync(join(dir, segment)).subarray(0, -1));
    const torn = await ottla(["log", "verify", damaged, "--json"]);
    expect(json(torn)).toMatchObject({ kind: "segment", isGood: false, firstFault: { offset: 4 } });
    expect(torn.code).toBe(1);
  });

  it("a flipped bit: exit 1 with the first bad offset, nothing changed", async () => {
    const damaged = copy();
    const file = join(damaged, segment);
    const bytes = readFileSync(file);
    bytes[bytes.length - 3] = (bytes.at(-3) ?? 0) ^ 1;
    writeFileSync(file, bytes);
    const { code, stdout, stderr } = await ottla(["log", "verify", damaged]);
    expect(stderr).toMatch(/\nerror\[DATA_DAMAGED\]: first bad offset 4: /);
    expect(stdout).toContain("damaged");
    expect(code).toBe(1);
    expect(readFileSync(file)).toEqual(bytes);
    const asJson = await ottla(["log", "verify", damaged, "--json"]);
    expect(json(asJson)).toMatchObject({ _command: "log.verify", isGood: false, firstFault: { offset: 4 } });
    const dump = await ottla(["log", "dump", file]);
    expect(dump.stderr).toContain("first bad offset 4");
    expect(dump.code).toBe(1);
  });

  it("finds damage in a node's metadata", async () => {
    const good = await ottla(["log", "verify", join(dir, "metadata"), "--json"]);
    expect(json(good)).toMatchObject({ kind: "metadata", isGood: true, metadata: { state: { boots: 1 } } });
    const damaged = copy();
    const file = join(damaged, "metadata", "00000000000000000000.log");
    const bytes = readFileSync(file);
    bytes[15] = (bytes[15] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    const { code, stderr } = await ottla(["log", "verify", damaged]);
    expect(stderr).toMatch(/\nerror\[DATA_DAMAGED\]: first bad offset 0: .*leader epoch/);
    expect(code).toBe(1);
  });

  it("a missing and a foreign file", async () => {
    const { code, stderr } = await ottla(["log", "verify", folder.path]);
    expect(stderr).toMatch(/^error\[DATA_DIR_FOREIGN\]/);
    expect(code).toBe(32);
    const swapped = copy();
    copyFileSync(join(swapped, "superblock"), join(swapped, segment));
    expect((await ottla(["log", "verify", swapped])).code).toBe(1);
    expect((await ottla(["log", "verify", join(folder.path, "none")])).code).toBe(4);
  });
});
