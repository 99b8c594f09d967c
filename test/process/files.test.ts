// Files through real processes: what `ottla produce` reads from a pipe is what `ottla consume` writes, byte for byte.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { cleanEnvironment, collect, ensureBuilt, MAIN, outputMatching, type RunResult, start } from "../cli/support.ts";
import { NodeUnderTest } from "./node.ts";

let node: NodeUnderTest;
beforeAll(async () => {
  ensureBuilt();
  node = await NodeUnderTest.create(["disk.low.space.bytes=1MiB", "disk.reserve.bytes=1MiB"]);
  await node.start();
});
afterAll(() => node.remove());

/** The lines of a file, as text of one character a byte; a last line without LF counts. */
function linesOf(bytes: Uint8Array): string[] {
  const lines = Buffer.from(bytes).toString("latin1").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

const bytesOf = (lines: readonly string[]) => Buffer.from(lines.map((line) => `${line}\n`).join(""), "latin1");

async function produce(topic: string, input: string | Uint8Array, ...flags: string[]): Promise<RunResult> {
  const result = await node.run(["produce", topic, ...flags], { input });
  expect(result.stdout === "" || flags.includes("--json")).toBe(true);
  return result;
}

/** What `consume -o start -e` prints, with these flags too. */
async function consume(topic: string, ...flags: string[]): Promise<Buffer> {
  const { code, stderr, stdoutBytes } = await node.run(["consume", topic, "-e", "-q", ...flags]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdoutBytes;
}

function expectSameLines(found: Uint8Array, expected: readonly string[]): void {
  // Compared as one string each: a difference is told at its place, and the comparison is quick.
  expect(linesOf(found).sort().join("\n") === [...expected].sort().join("\n"), "other lines came out").toBe(true);
  expect(linesOf(found).length).toBe(expected.length);
}

/** Every byte value, NULs, CRs, empty lines, invalid UTF-8, and no LF at the end. */
function nastyFile(lineCount: number): Buffer {
  const rng = createRng([7, 7, 7, 7]);
  const lines = Array.from({ length: lineCount }, (_, index) => {
    const kind = index % 10;
    if (kind === 0) return "";
    if (kind === 1) return "\0".repeat(rng.below(40));
    if (kind === 2) return `line ${index}\r`;
    if (kind === 3) return "\xff\xfe\xc0\x80 \xed\xa0\x80";
    const bytes = new Uint8Array(rng.below(kind === 4 ? 20_000 : 150));
    rng.fill(bytes);
    return Buffer.from(bytes).toString("latin1").replaceAll("\n", "\0");
  });
  return Buffer.from(`${lines.join("\n")}\nthe end, without a line feed`, "latin1");
}

describe("a file goes in and comes out", () => {
  const file = nastyFile(3000);

  it("byte for byte and in order from one partition", async () => {
    const topic = await node.createTopic("one");
    expect((await produce(topic, file)).code).toBe(0);
    expect((await consume(topic)).equals(Buffer.concat([file, Buffer.from("\n")]))).toBe(true);
  });

  for (const codec of ["none", "gzip", "snappy", "lz4", "zstd"]) {
    it(`as the same lines from several partitions with -z ${codec}`, async () => {
      const topic = await node.createTopic(`many-${codec}`, { partitions: 7 });
      const { code, stderr } = await produce(topic, file, "-z", codec, "--batch-bytes", "8KiB");
      expect(code, stderr).toBe(0);
      expect(stderr).toContain("3001 records acknowledged of 3001 read");
      expectSameLines(await consume(topic), linesOf(file));
    });
  }

  it("however small it is", async () => {
    const files: readonly (readonly [string, readonly string[]])[] = [
      ["", []],
      ["\n", [""]],
      ["\n\n", ["", ""]],
      ["x", ["x"]],
      ["\r\n\0", ["\r", "\0"]],
      ["a\n\nb", ["a", "", "b"]],
    ];
    for (const [index, [input, lines]] of files.entries()) {
      const topic = await node.createTopic(`small-${index}`);
      const { code, stderr } = await produce(topic, input);
      expect(code, stderr).toBe(0);
      const noun = lines.length === 1 ? "record" : "records";
      expect(stderr).toContain(`${lines.length} ${noun} acknowledged of ${lines.length} read`);
      expect((await consume(topic)).toString("latin1")).toBe(bytesOf(lines).toString("latin1"));
    }
  });

  it("also when the pipe delivers it byte by byte", async () => {
    const topic = await node.createTopic("dripping");
    const child = start(["produce", topic], { env: { OTTLA_BOOTSTRAP: node.address } });
    const done = collect(child);
    const input = Buffer.from("drop by\r\n\ndr\0p");
    for (const byte of input) {
      child.stdin?.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    child.stdin?.end();
    expect((await done).code).toBe(0);
    expect((await consume(topic)).toString()).toBe(`${input.toString()}\n`);
  });

  it("as JSON and back", async () => {
    const topic = await node.createTopic("json", { partitions: 3 });
    const input = nastyFile(300);
    await produce(topic, input);
    const found = (await consume(topic, "--json")).toString().trimEnd().split("\n").map(bytesOfJson);
    expectSameLines(Buffer.concat(found.flatMap((value) => [value, Buffer.from("\n")])), linesOf(input));
  });

  it("with --key-delimiter: key and value apart, joined again they are the line", async () => {
    const topic = await node.createTopic("keys", { partitions: 5 });
    const lines = Array.from({ length: 500 }, (_, index) => `key\xff${index % 11}::value ${index}::more\r`);
    const odd = ["without", "", "::", "::empty key", "empty value::", ":", ":::"];
    await produce(topic, bytesOf([...lines, ...odd]), "-K", "::");
    const rejoined = (await consume(topic, "-f", "%K %k::%v\\n")).toString("latin1").split("\n").slice(0, -1);
    const expected = [...lines, ...odd].map((line) => {
      const at = line.indexOf("::");
      return at < 0 ? `-1 ::${line}` : `${at} ${line}`;
    });
    expect(rejoined.sort()).toEqual(expected.sort());
    const places = (await consume(topic, "-f", "%k %p\\n")).toString("latin1").split("\n");
    const ofKey = (number: number) => new Set(places.filter((place) => place.startsWith(`key\xff${number} `)));
    for (let number = 0; number < 11; number++) expect(ofKey(number).size, `partitions of key ${number}`).toBe(1);
  });
});

function bytesOfJson(text: string): Buffer {
  const { value, valueEncoding } = JSON.parse(text) as { readonly value: string; readonly valueEncoding?: "base64" };
  return Buffer.from(value, valueEncoding ?? "utf8");
}

describe("lines at the limit", () => {
  for (const codec of ["none", "lz4"]) {
    it(`go through up to the last byte with -z ${codec}, longer ones are refused with their number, and the rest goes on`, async () => {
      const maxBytes = 20_000;
      const topic = await node.createTopic(`limit-${codec}`, {
        partitions: 2,
        configs: { "max.message.bytes": maxBytes },
      });
      // Bytes that do not compress, longer by one from line to line, over the limit and back.
      const rng = createRng([3, 3, 3, 3]);
      const noise = Uint8Array.from({ length: maxBytes * 2 }, () => 32 + rng.below(90));
      const sizes = Array.from({ length: 120 }, (_, index) => maxBytes - 110 + index);
      const lines = sizes.map((size) => Buffer.from(noise.subarray(0, size)).toString("latin1"));
      const input = bytesOf([...lines, Buffer.from(noise.subarray(0, maxBytes * 2)).toString("latin1"), "the rest"]);
      const { code, stderr } = await produce(topic, input, "-z", codec);
      const found = linesOf(await consume(topic));
      const longest = Math.max(...found.map((line) => line.length));
      expect(code).toBe(1);
      expect(longest).toBeGreaterThan(maxBytes - 110);
      expect(longest).toBeLessThan(maxBytes);
      const fitting = lines.filter((line) => line.length <= longest);
      expectSameLines(bytesOf(found), [...fitting, "the rest"]);
      expect(stderr).toContain(`line ${fitting.length + 1} is longer than`);
      expect(stderr).not.toContain(`line ${fitting.length} is longer than`);
      expect(stderr).toContain(`${lines.length - fitting.length + 1} lines were too long and not sent`);
      const skipped = await produce(topic, input, "-z", codec, "--skip-oversized");
      expect(skipped.code, skipped.stderr).toBe(0);
    });
  }

  it("one of the default limit's size goes through whole", async () => {
    const topic = await node.createTopic("huge");
    const sizes = [1_048_588 - 90, 1_000_000, 1];
    const lines = sizes.map((size, index) => String.fromCharCode(65 + index).repeat(size));
    const { code, stderr } = await produce(topic, bytesOf(lines));
    expect(code, stderr).toBe(0);
    expect((await consume(topic)).equals(bytesOf(lines))).toBe(true);
  });
});

describe("parts of a topic", () => {
  let topic = "";
  let middleMs = 0;
  beforeAll(async () => {
    topic = await node.createTopic("parts", { partitions: 3 });
    for (const [partition, codec] of ["zstd", "none", "snappy"].entries()) {
      const lines = ["a", "b", "c", "d"].map((name) => `${partition}${name}`);
      await produce(topic, bytesOf(lines), "-p", String(partition), "-z", codec);
    }
    const last = (await consume(topic, "-f", "%T\\n")).toString().trimEnd().split("\n").map(Number);
    middleMs = Math.max(...last) + 1;
    while (Date.now() < middleMs) await new Promise((resolve) => setImmediate(resolve));
    await produce(topic, "0later\n", "-p", "0", "-z", "zstd");
  });
  const found = async (...flags: string[]) => linesOf(await consume(topic, ...flags)).sort();

  it("-P, -o and -n choose them", async () => {
    expect(await found("-P", "1")).toEqual(["1a", "1b", "1c", "1d"]);
    expect(await found("-P", "0,2", "-o", "3")).toEqual(["0d", "0later", "2d"]);
    expect(await found("-P", "1-2", "-o", "-1")).toEqual(["1d", "2d"]);
    expect(await found("-o", `@${middleMs}`)).toEqual(["0later"]);
    expect(await found("-o", `@${new Date(middleMs).toISOString()}`)).toEqual(["0later"]);
    expect(await found("-o", "end")).toEqual([]);
    expect((await found("-n", "5")).length).toBe(5);
    expect((await found("-n", "500")).length).toBe(13);
  });

  it("-o end shows what comes after", async () => {
    const later = await node.createTopic("later", { partitions: 2 });
    await produce(later, "before\n");
    const child = start(["consume", later, "-o", "end", "-n", "2", "-v"], { env: { OTTLA_BOOTSTRAP: node.address } });
    const done = collect(child);
    const isOver = done.then(() => true);
    // Nothing tells when the consumer has begun, so there is more until it has seen two.
    for (let number = 0; ; number++) {
      await produce(later, `after ${number}\n`);
      if (await Promise.race([isOver, new Promise<false>((resolve) => setTimeout(() => resolve(false), 50))])) break;
    }
    const { code, stdout } = await done;
    expect(code).toBe(0);
    expect(stdout).toMatch(/^after \d+\nafter \d+\n$/);
  });
});

describe("ends", () => {
  const script = (command: string) =>
    collect(
      spawn("bash", ["-c", `ottla() { "${process.execPath}" "${MAIN}" "$@"; }; ${command}`], {
        env: cleanEnvironment({ OTTLA_BOOTSTRAP: node.address }),
      }),
    );

  it("`consume | head -1` ends quietly with status 0, with and without -e, formatted and as JSON", async () => {
    const topic = await node.createTopic("headed", { partitions: 3 });
    await produce(topic, "a line of a certain length to fill the pipe\n".repeat(100_000));
    for (const flags of ["-e", "", "-e -f '%p %o %v\\n'", "-e --json"]) {
      const { stdout, stderr } = await script(`ottla consume ${topic} ${flags} | head -1; echo "\${PIPESTATUS[0]}"`);
      expect({ lines: stdout.split("\n").length, status: stdout.split("\n")[1], stderr }, flags).toEqual({
        lines: 3,
        status: "0",
        stderr: "",
      });
    }
  });

  it("a slow reader of a large topic gets all of it", async () => {
    const { stdout, stderr } = await script(
      `ottla consume headed -e -q | { sleep 1; wc -lc; }; echo "\${PIPESTATUS[0]}"`,
    );
    expect(stderr).toBe("");
    expect(stdout.trim().split(/\s+/)).toEqual(["100000", String(100_000 * 44), "0"]);
  });

  it("Ctrl-C in produce in mid-stream: says what was acknowledged, exits 130, and the topic agrees", async () => {
    const topic = await node.createTopic("cut", { partitions: 3 });
    const child = start(["produce", topic, "--json"], { env: { OTTLA_BOOTSTRAP: node.address } });
    const done = collect(child);
    let isOver = false;
    let sent = 0;
    const { stdin } = child;
    stdin?.on("error", () => undefined);
    const closed = once(child, "close").then(() => {
      isOver = true;
    });
    const acknowledged = async () => linesOf(await consume(topic)).length;
    const interrupted = expect
      .poll(acknowledged)
      .toBeGreaterThan(1000)
      .then(() => child.kill("SIGINT"));
    while (!isOver) {
      const more = Array.from({ length: 200 }, () => `${sent++}\n`).join("");
      if (stdin?.write(more) === false) await Promise.race([once(stdin, "drain").catch(() => undefined), closed]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await interrupted;
    const { code, stdout } = await done;
    expect(code).toBe(130);
    const {
      recordsAcknowledged = 0,
      recordsRead = 0,
      recordsUnknown = 0,
    } = JSON.parse(stdout) as Record<string, number>;
    const found = linesOf(await consume(topic));
    expect(new Set(found).size).toBe(found.length);
    expect(recordsAcknowledged).toBeGreaterThan(1000);
    expect(recordsRead).toBeLessThanOrEqual(sent);
    expect(found.length).toBeGreaterThanOrEqual(recordsAcknowledged);
    expect(found.length).toBeLessThanOrEqual(recordsAcknowledged + recordsUnknown);
  });

  it("--rate keeps to its rate, and Ctrl-C ends it at once", async () => {
    const topic = await node.createTopic("paced");
    const child = start(["produce", topic, "--rate", "100"], { env: { OTTLA_BOOTSTRAP: node.address } });
    const done = collect(child);
    child.stdin?.write("x\n".repeat(10_000));
    await expect.poll(async () => linesOf(await consume(topic)).length).toBeGreaterThan(50);
    const ended = outputMatching(child, "stderr", /(\d+) records acknowledged of (\d+) read.*\((\d+) records\/s/);
    child.kill("SIGINT");
    const [, acknowledged, read, rate] = (await ended).map(Number);
    expect((await done).code).toBe(130);
    expect(acknowledged).toBe(read);
    expect(read).toBeLessThan(2000);
    expect(rate).toBeLessThanOrEqual(110);
  });
});
