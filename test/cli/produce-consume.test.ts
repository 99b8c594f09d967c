// The whole way of a file: into a topic and out again, byte for byte, and everything that can be wrong on the way.
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Client, connect } from "../../src/index.ts";
import { collect, json, outputMatching, start, startTestCluster, type TestCluster } from "./support.ts";

let cluster: TestCluster;
let client: Client;
beforeAll(async () => {
  cluster = await startTestCluster();
  client = await connect({ brokers: [cluster.address] });
});
afterAll(async () => {
  await client.close();
  await cluster.stop();
});

/** By the library: quicker than a process for each. */
async function create(name: string, partitions = 1, configs: Readonly<Record<string, string>> = {}): Promise<string> {
  await client.admin().createTopic(name, { partitions, configs });
  return name;
}

/** Splits as records do: at LF, a last line without LF counts. */
function linesOf(bytes: Buffer): string[] {
  const lines = bytes.toString("latin1").split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

describe("topics", () => {
  it("are created, listed, described and deleted", async () => {
    const made = await cluster.run([
      "topic",
      "create",
      "access-log",
      "--partitions",
      "3",
      "-c",
      "max.message.bytes=2MiB",
    ]);
    expect(made).toMatchObject({ code: 0, stdout: "access-log\t3 partitions\t1 replica\n" });
    const list = await cluster.run(["topic", "ls"]);
    expect(list.stdout).toMatch(
      /^TOPIC\tPARTITIONS\tREPLICAS\tUNDER-REPLICATED\tSTATE\n(.*\n)*access-log\t3\t1\t0\tok\n/,
    );
    const described = await cluster.run(["topic", "describe", "access-log"]);
    expect(described.stdout).toMatch(
      /^TOPIC\tPARTITION\tLEADER\tEPOCH\tVERSION\tREPLICAS\tISR\tELR\tMIN\tSTART\tHW\tEND\tDURABLE\tLAG\tSTATE\naccess-log\t0\t1\t\d+\t\d+\t1\t1\t-\t1\t0\t0\t0\t0\t-\tok\naccess-log\t1\t/,
    );
    expect(json(await cluster.run(["topic", "describe", "access-log", "--json"]))).toMatchObject({
      _command: "topic.describe",
      _version: 1,
      name: "access-log",
      maxMessageBytes: 2_097_152,
      partitions: [
        { index: 0, leader: 1, isr: [1], startOffset: 0, highWatermark: 0, unknown: null },
        { index: 1 },
        { index: 2 },
      ],
    });
    expect((await cluster.run(["topic", "delete", "access-log", "--yes", "--wait"])).stdout).toBe(
      "access-log\tdeleted\n",
    );
    expect((await cluster.run(["topic", "ls"])).stdout).not.toContain("access-log");
    expect((await cluster.run(["topic", "create", "access-log"])).code).toBe(0);
  });

  it("several are described in one table; what is not there is told once", async () => {
    await create("left");
    await create("right");
    const { code, stdout, stderr } = await cluster.run(["topic", "describe", "left", "nosuch", "right"]);
    expect(stdout).toMatch(/^TOPIC\tPARTITION\t.*\nleft\t0\t.*\nright\t0\t.*\n$/);
    expect(stderr).toMatch(/error\[UNKNOWN_TOPIC_OR_PARTITION\]: nosuch: (?!nosuch)/);
    expect(code).toBe(1);
    expect((await cluster.run(["topic", "rm", "left", "right", "-y"])).code).toBe(0);
  });

  it("refusals have codes", async () => {
    await create("twice");
    await create("a.b");
    const refusals: [string[], RegExp, number][] = [
      [["topic", "create", "twice"], /^error\[TOPIC_ALREADY_EXISTS\].*\nhint: .*--if-not-exists/, 1],
      [["topic", "create", "a b"], /^error\[INVALID_TOPIC_EXCEPTION\].*\nhint: use 1 to 249/, 2],
      [["topic", "create", "a_b"], /^error\[INVALID_TOPIC_EXCEPTION\].*a\.b.*\nhint: choose a name that differs/, 2],
      [["produce", "a.b", "-p", "1"], /: a\.b has 1 partition, no partition 1\nhint: ottla topic describe a\.b/, 4],
      [["consume", "a.b", "-e", "-P", "1"], /a\.b has no partition 1\nhint: ottla topic describe a\.b/, 4],
      [["consume", "a.b", "-o", "99999999"], /^error\[OFFSET_OUT_OF_RANGE\]: .*99999999 of a\.b-0.*: 0 to 0/, 1],
      [["consume", "a.b", "-e", "-o", "1"], /^error\[OFFSET_OUT_OF_RANGE\]/, 1],
      [["topic", "create", "many", "-P", "999999999"], /^error\[INVALID_PARTITIONS\]/, 2],
      [["topic", "create", "three", "-R", "3"], /^error\[INVALID_REPLICATION_FACTOR\]/, 2],
      [["topic", "create", "odd", "-c", "colour=red"], /^error\[INVALID_CONFIG\].*colour/, 2],
      [["topic", "describe", "none"], /^error\[UNKNOWN_TOPIC_OR_PARTITION\]/, 4],
      [["topic", "delete", "none", "-y"], /^error\[UNKNOWN_TOPIC_OR_PARTITION\]/, 4],
      [["topic", "delete", "twice"], /^error\[NOT_CONFIRMED\].*\nhint: add --yes/, 6],
      [["consume", "none", "-e"], /^error\[UNKNOWN_TOPIC_OR_PARTITION\]/, 4],
    ];
    await Promise.all(
      refusals.map(async ([args, pattern, exitCode]) => {
        const { code, stderr, stdout } = await cluster.run(args);
        expect(stderr, args.join(" ")).toMatch(pattern);
        expect({ code, stdout }, args.join(" ")).toEqual({ code: exitCode, stdout: "" });
      }),
    );
    expect((await cluster.run(["topic", "create", "twice", "--if-not-exists"])).code).toBe(0);
    const mixed = await cluster.run(["topic", "create", "twice", "once"]);
    expect(mixed.code).toBe(1);
    expect(mixed.stdout).toMatch(/^once\t/);
  });
});

describe("a file goes in and comes out", () => {
  it("byte for byte, NULs and invalid UTF-8 included, with each acks", async () => {
    const random = Buffer.from(Array.from({ length: 60_000 }, (_, index) => (index * 7919 + (index >> 3) * 31) & 0xff));
    const input = Buffer.concat([Buffer.from("first\r\n\n\nlast but"), random, Buffer.from("\nno line feed")]);
    const cases = [
      ["all", "none"],
      ["1", "lz4"],
      ["0", "gzip"],
    ] as const;
    const topics = cases.map(([acks, codec]) => `bytes-${acks}-${codec}`);
    expect((await cluster.run(["topic", "create", ...topics, "-P", "3"])).code).toBe(0);
    await Promise.all(
      cases.map(async ([acks, codec]) => {
        const topic = `bytes-${acks}-${codec}`;
        const sent = await cluster.run(["produce", topic, "--acks", acks, "-z", codec], { input });
        expect(sent.code, sent.stderr).toBe(0);
        expect(sent.stdout).toBe("");
        const done = acks === "0" ? "sent, not acknowledged (acks 0)," : "acknowledged";
        expect(sent.stderr).toContain(`${linesOf(input).length} records ${done} of ${linesOf(input).length} read`);
        const got = async () => linesOf((await cluster.run(["consume", topic, "-e", "-q"])).stdoutBytes).sort();
        // With acks 0 nobody says when the records are there.
        if (acks === "0") await expect.poll(async () => (await got()).length).toBe(linesOf(input).length);
        expect(await got()).toEqual(linesOf(input).sort());
      }),
    );
  });

  it("keys, headers and partitions", async () => {
    const topic = await create("keyed", 2);
    await cluster.run(["produce", topic, "-K", ":", "-H", "source=test", "-H", "empty=", "-p", "1"], {
      input: "a:1:x\nplain\n:\n",
    });
    const { stdout } = await cluster.run([
      "consume",
      topic,
      "-e",
      "-q",
      "-P",
      "1",
      "-f",
      "%t %p %o [%k] [%v] %h %K %V\\n",
    ]);
    expect(stdout).toBe(
      [
        "keyed 1 0 [a] [1:x] source=test,empty= 1 3",
        "keyed 1 1 [] [plain] source=test,empty= -1 5",
        "keyed 1 2 [] [] source=test,empty= 0 0",
        "",
      ].join("\n"),
    );
    const asJson = await cluster.run(["consume", topic, "-e", "-q", "--json", "-n", "1"]);
    expect(json(asJson)).toMatchObject({
      _command: "consume",
      _version: 1,
      topic,
      partition: 1,
      offset: 0,
      key: "a",
      value: "1:x",
      headers: [
        { key: "source", value: "test" },
        { key: "empty", value: "" },
      ],
    });
    expect((await cluster.run(["produce", topic, "-p", "2"], { input: "x" })).code).toBe(4);
  });

  it("-o: offsets, the last N, times; -n", async () => {
    const topic = await create("positions");
    await cluster.run(["produce", topic], { input: "0\n1\n2\n3\n4\n" });
    const from = async (...args: string[]) =>
      (await cluster.run(["consume", topic, "-q", "-e", ...args])).stdout.split("\n").join("");
    const expected: [string[], string][] = [
      [["-o", "2"], "234"],
      [["-o", "-2"], "34"],
      [["-o", "-99"], "01234"],
      [["-o", "end"], ""],
      [["-o", "5"], ""],
      [["-o", "@-1h"], "01234"],
      [["-o", "@0"], "01234"],
      [["-n", "3"], "012"],
    ];
    expect(await Promise.all(expected.map(([args]) => from(...args)))).toEqual(expected.map(([, text]) => text));
  });
});

describe("lines that are too long", () => {
  it("are refused with their numbers, the rest is sent, and the exit code is 1", async () => {
    const topic = await create("small", 1, { "max.message.bytes": "1000" });
    const input = Buffer.concat([
      Buffer.from("one\n"),
      Buffer.alloc(950, 65),
      Buffer.from("\nthree\n"),
      Buffer.alloc(3_000_000, 66),
      Buffer.from("\nfive\n"),
    ]);
    const refused = await cluster.run(["produce", topic], { input });
    expect(refused.stderr).toMatch(/line 2 is longer than.*\n(.*\n)*.*line 4 is longer than/);
    expect(refused.code).toBe(1);
    expect((await cluster.run(["consume", topic, "-e", "-q"])).stdout).toBe("one\nthree\nfive\n");
    const skipped = await cluster.run(["produce", topic, "--skip-oversized"], { input });
    expect(skipped.stderr).toContain("2 lines were too long");
    expect(skipped.stderr).toContain("3 records acknowledged of 5 read");
    expect(skipped.code).toBe(0);
  });
});

describe("compacted topics", () => {
  it("lines without a key are refused with their numbers, the rest is sent, and the exit code is 1", async () => {
    const topic = await create("keyed-lines", 1, { "cleanup.policy": "compact,delete" });
    const refused = await cluster.run(["produce", topic, "-K", ":"], { input: "a:1\nno key\nb:2\n\n:empty key\n" });
    expect(refused.stderr).toMatch(
      /line 2 has no key, .*: not sent\n +hint: give each record a key.*\n.*line 4 has no key/,
    );
    expect(refused.stderr).toContain("2 lines had no key and were not sent");
    expect(refused.code).toBe(1);
    expect((await cluster.run(["consume", topic, "-e", "-q"])).stdout).toBe("1\n2\nempty key\n");
    const summary = await cluster.run(["produce", topic, "-z", "gzip", "--json"], { input: "x\n".repeat(30) });
    expect(json(summary)).toMatchObject({ recordsRead: 30, recordsAcknowledged: 0, linesWithoutKey: 30 });
    expect(summary.code).toBe(1);
    expect(summary.stderr).toContain("further lines without a key are only counted");
  });

  it("-Z makes an empty value null; without it, it is empty", async () => {
    const topic = await create("tombs", 1, { "cleanup.policy": "compact" });
    expect(await cluster.run(["produce", topic, "-K", ":"], { input: "a:\n" })).toMatchObject({ code: 0 });
    expect(await cluster.run(["produce", topic, "-K", ":", "-Z"], { input: "a:1\na:\n" })).toMatchObject({ code: 0 });
    expect((await cluster.run(["consume", topic, "-e", "-q", "-f", "%k=%V\\n"])).stdout).toBe("a=0\na=1\na=-1\n");
    const alone = await cluster.run(["produce", topic, "--empty-as-null"], { input: "\n" });
    expect(alone).toMatchObject({ code: 2 });
    expect(alone.stderr).toMatch(/^error\[USAGE\]: --empty-as-null goes with --key-delimiter\nhint: /);
  });
});

describe("the last N records", () => {
  it("are records also where the broker's own ones lie between: consume -n ends, trim leaves N", async () => {
    const topic = await create("last");
    const lines = (name: string) => Array.from({ length: 10 }, (_, n) => `${name}${n}\n`).join("");
    const trim = () => cluster.run(["topic", "trim", topic, "--before", "-10", "--yes"]);
    const values = async (...args: string[]) => (await cluster.run(["consume", topic, "-q", ...args])).stdout;
    for (const name of ["a", "b", "c"])
      expect((await cluster.run(["produce", topic], { input: lines(name) })).code).toBe(0);
    for (const _again of [1, 2]) {
      expect(await trim()).toMatchObject({ code: 0 });
      expect(await values("-e")).toBe(lines("c"));
      expect(await values("-o", "-3", "-n", "3")).toBe("c7\nc8\nc9\n");
    }
    expect((await cluster.run(["produce", topic], { input: lines("d") })).code).toBe(0);
    expect(await values("-o", "-12", "-n", "12")).toBe(`c8\nc9\n${lines("d")}`);
    expect(await trim()).toMatchObject({ code: 0 });
    expect(await values("-e")).toBe(lines("d"));
  });
});

describe("pipes and signals", () => {
  it("Ctrl-C in produce says what was acknowledged and ends with 130", async () => {
    const topic = await create("interrupted");
    const child = start(["produce", topic], { env: { OTTLA_BOOTSTRAP: cluster.address } });
    const done = collect(child);
    child.stdin?.write("one\ntwo\nhalf a li");
    await expect.poll(async () => (await cluster.run(["consume", topic, "-e", "-q"])).stdout).toBe("one\ntwo\n");
    child.kill("SIGINT");
    const { code, stderr } = await done;
    expect(stderr).toContain("2 records acknowledged of 2 read");
    expect(code).toBe(130);
  });

  it("--rate holds also after a pause of the input", async () => {
    const topic = await create("paced");
    const child = start(["produce", topic, "--rate", "200"], { env: { OTTLA_BOOTSTRAP: cluster.address } });
    const done = collect(child);
    child.stdin?.write("one\n");
    await expect
      .poll(async () => (await cluster.run(["consume", topic, "-e", "-q"])).stdout, { timeout: 8000 })
      .toBe("one\n");
    await delay(1500);
    const startedMs = performance.now();
    child.stdin?.end("x\n".repeat(300));
    expect((await done).code).toBe(0);
    // 1500 ms, but for the quarter of a second that may be made up for.
    expect(performance.now() - startedMs).toBeGreaterThan(1150);
  });

  it("the topic is deleted under produce: the summary, and exit 4", async () => {
    const topic = await create("vanishing");
    const child = start(["produce", topic], { env: { OTTLA_BOOTSTRAP: cluster.address } });
    const done = collect(child);
    child.stdin?.on("error", () => undefined);
    child.stdin?.write("one\n");
    await expect.poll(async () => (await cluster.run(["consume", topic, "-e", "-q"])).stdout).toBe("one\n");
    expect((await cluster.run(["topic", "delete", topic, "--yes", "--wait"])).code).toBe(0);
    const feeding = setInterval(() => child.stdin?.write("more\n"), 50);
    const { code, stderr } = await done;
    clearInterval(feeding);
    expect(stderr).toMatch(/^1 record acknowledged of \d+ read/m);
    expect(stderr).toMatch(/^UNKNOWN_TOPIC_OR_PARTITION: \d+ records?\n(.*\n)*error\[UNKNOWN_TOPIC_OR_PARTITION\]: /m);
    expect(code).toBe(4);
  });

  it.each(["produce", "consume"])("SIGTERM ends %s with 143", async (verb) => {
    const topic = await create(`terminated-${verb}`);
    await cluster.run(["produce", topic], { input: "here\n" });
    const child = start([verb, topic], { env: { OTTLA_BOOTSTRAP: cluster.address } });
    const done = collect(child);
    if (verb === "consume") await outputMatching(child, "stdout", /here\n/);
    else {
      child.stdin?.write("there\n");
      await expect.poll(async () => (await cluster.run(["consume", topic, "-e", "-q"])).stdout).toContain("there\n");
    }
    child.kill("SIGTERM");
    const { code, stderr } = await done;
    expect(code, stderr).toBe(143);
    if (verb === "produce") expect(stderr).toContain("1 record acknowledged of 1 read");
  });

  it("consume without -e waits for more, and Ctrl-C ends it with 130", async () => {
    const topic = await create("followed");
    const child = start(["consume", topic], { env: { OTTLA_BOOTSTRAP: cluster.address } });
    const done = collect(child);
    const seen = outputMatching(child, "stdout", /later\n/);
    await cluster.run(["produce", topic], { input: "later\n" });
    await seen;
    child.kill("SIGINT");
    expect((await done).code).toBe(130);
  });
});
