// What needs no broker: help, usage errors, the error table, completion, start time.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildProgram } from "../../src/cli/program.ts";
import { collect, ensureBuilt, MAIN, ottla, outputMatching, start, temporaryFolder } from "./support.ts";

beforeAll(ensureBuilt);

function leaves(command = buildProgram(), path: string[] = []): string[][] {
  if (command.commands.length === 0) return [path];
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]));
}

describe("help", () => {
  it("of the program names every command, on stdout, with 0", async () => {
    const { code, stdout, stderr } = await ottla(["--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    for (const word of [
      "cluster",
      "server",
      "topic",
      "produce",
      "consume",
      "log",
      "errors",
      "completion",
      "Exit codes",
    ]) {
      expect(stdout).toContain(word);
    }
  });

  it.each(leaves().map((path) => path.join(" ")))("of `%s` has examples", (path) => {
    const command = path
      .split(" ")
      .reduce((at, name) => at.commands.find((child) => child.name() === name) ?? at, buildProgram());
    let text = "";
    command.configureOutput({ writeOut: (more) => void (text += more) }).outputHelp();
    expect(text).toMatch(/Examples:\n {2}\$ /);
  });

  it.each(leaves().map((path) => path.join(" ")))("of `%s` fits 80 columns", (path) => {
    const command = path
      .split(" ")
      .reduce((at, name) => at.commands.find((child) => child.name() === name) ?? at, buildProgram());
    let text = "";
    const output = { writeOut: (more: string) => void (text += more), getOutHelpWidth: () => 80 };
    command.configureOutput(output).outputHelp();
    const isExample = (line: string) => line.startsWith("  $ ");
    expect(text.split("\n").filter((line) => line.length > 80 && !isExample(line))).toEqual([]);
  });
});

describe("start time", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  beforeAll(() => {
    folder = temporaryFolder();
  });
  afterAll(() => folder.remove());

  /** Of a process of its own from its first moment to its exit. Unlike the clock it does not count what others of a busy machine take. */
  function cpuMs(args: readonly string[]): number {
    const preload = join(folder.path, "tell-cpu.cjs");
    writeFileSync(
      preload,
      'process.on("exit", () => require("fs").writeSync(2, `cpu ${JSON.stringify(process.cpuUsage())}`));\n',
    );
    const { status, stderr } = spawnSync(process.execPath, ["-r", preload, ...args], { encoding: "utf8" });
    const told = /cpu (\{.*\})$/.exec(stderr)?.[1];
    expect({ args, status, told }).toEqual({ args, status: 0, told: expect.any(String) });
    const { user, system } = JSON.parse(told ?? "") as NodeJS.CpuUsage;
    return (user + system) / 1000;
  }

  it("of --help is less than 0.15 s where node itself takes 0.05 s", () => {
    // Both by turns: a machine slows down and speeds up, also in what the processor does in a second.
    const rounds = Array.from({ length: 7 }, () => ({ help: cpuMs([MAIN, "--help"]), bare: cpuMs(["-e", "0"]) }));
    const leastOf = (values: readonly number[]) => Math.min(...values);
    const [help, bare] = [leastOf(rounds.map((each) => each.help)), leastOf(rounds.map((each) => each.bare))];
    expect(bare).toBeGreaterThan(0);
    expect(help).toBeLessThan(3 * bare);
  });

  /** What was loaded: packages by name, own files by number. Ends the process when it has said `until`, else waits for its end. */
  async function loaded(args: readonly string[], until?: RegExp) {
    const child = start(args, { env: { NODE_DEBUG: "esm,module" }, cwd: folder.path });
    const result = collect(child);
    if (until !== undefined) {
      await outputMatching(child, "stdout", until);
      child.kill("SIGTERM");
    }
    const { stderr } = await result;
    const paths = new Set([...stderr.matchAll(/\/*(\/[^\s'":]+\.(?:js|mjs|cjs))/g)].map(([, path = ""]) => path));
    const packages = [...paths].flatMap((path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
    return {
      packages: [...new Set(packages)].toSorted(),
      ownFiles: [...paths].filter((path) => path.startsWith(dirname(dirname(MAIN)))).length,
    };
  }

  it("of --help loads commander and hardly a file", async () => {
    const { packages, ownFiles } = await loaded(["--help"]);
    expect(packages).toEqual(["commander"]);
    expect(ownFiles).toBeGreaterThan(1);
    expect(ownFiles).toBeLessThan(20);
  });

  it("of a command that connects loads what a connection takes", async () => {
    const { packages } = await loaded(["topic", "ls", "-b", "127.0.0.1:1", "--timeout", "300ms"]);
    expect(packages).toEqual(expect.arrayContaining(["commander", "msgpackr", "ws"]));
    const slow = ["zod", "pino", "prom-client", "hdr-histogram-js", "jsonc-parser", "msgpackr-extract", "snappy"];
    expect(packages.filter((name) => slow.includes(name))).toEqual([]);
  });

  it("of a node loads no schema library and no tracing", async () => {
    const flags = [
      "--node-id",
      "1",
      "--data-dir",
      "data",
      "--listeners",
      "ws://127.0.0.1:0",
      "-X",
      "disk.reserve.bytes=1MiB",
    ];
    const { packages } = await loaded(["server", "start", ...flags], /^ready ws:/m);
    expect(packages).toEqual(expect.arrayContaining(["pino", "prom-client", "ws"]));
    const slow = ["zod", "hdr-histogram-js", "@opentelemetry/api", "tdigest", "msgpackr-extract", "snappy", "lz4-napi"];
    expect(packages.filter((name) => slow.includes(name))).toEqual([]);
  });
});

describe("usage errors end with 2 and one line with a hint", () => {
  it.each([
    [["tpoic", "ls"], "error[USAGE]: unknown command 'tpoic'\nhint: did you mean topic?\n"],
    [["topic", "lss"], "error[USAGE]: unknown command 'lss'\nhint: did you mean ls?\n"],
    [
      ["topic", "create"],
      "error[USAGE]: missing required argument 'name'\nhint: add --help to see what the command takes\n",
    ],
    [["consume", "t", "--ofset", "3"], "error[USAGE]: unknown option '--ofset'\nhint: did you mean --offset?\n"],
    [
      ["produce", "t", "--producer-name", "n".repeat(250)],
      "error[USAGE]: --producer-name takes 1 to 249 characters, none of them a control character, the first no byte order mark\n",
    ],
    [["produce", "t", "--acks", "2"], 'error[USAGE]: --acks takes 0, 1 or all, not "2"\n'],
    [["produce", "t", "-z", "brotli"], 'error[USAGE]: -z takes none, gzip, snappy, lz4, zstd, not "brotli"\n'],
    [["consume", "t", "-o", "soon"], /^error\[USAGE\]: -o takes start, end,.* not "soon"\n$/],
    [
      ["consume", "t", "-f", "%q"],
      'error[USAGE]: -f: unknown escape "%q"\nhint: use %t %p %o %T %k %v %h %K %V %e or %%\n',
    ],
    [["topic", "create", "t", "-P", "0"], 'error[USAGE]: --partitions takes an integer, 1 or more, not "0"\n'],
    [["-b", "a:b", "topic", "ls"], 'error[USAGE]: --bootstrap takes host[:port][,host[:port]...], not "a:b"\n'],
    [["topic", "delete", "t", "", "--yes"], "error[USAGE]: an argument is empty\n"],
    [["topic", "ls", "--timeout", "0"], 'error[USAGE]: --timeout takes a duration of 1ms or more, not "0"\n'],
    [
      ["produce", "t", "--delivery-timeout", "0"],
      'error[USAGE]: --delivery-timeout takes a duration of 1ms or more, not "0"\n',
    ],
    [["produce", "t", "--batch-bytes", "0"], 'error[USAGE]: --batch-bytes takes a size of a byte or more, not "0"\n'],
    [["completion", "tcsh"], 'error[USAGE]: completion takes bash, zsh or fish, not "tcsh"\n'],
    [
      ["server", "start", "--check", "--node-id", "1", "--data-dir", "d", "-X", "controller.quorum.voters=1@a:1,1@b:1"],
      /^error\[CONFIG_UNREADABLE\]: controller\.quorum\.voters: node 1 stands twice in /,
    ],
    [["server", "start", "-X", "node.id"], 'error[USAGE]: -X takes key=value, not "node.id"\n'],
  ] as const)("%j", async (args, expected) => {
    const { code, stdout, stderr } = await ottla([...args]);
    expect(stdout).toBe("");
    if (typeof expected === "string") expect(stderr).toBe(expected);
    else expect(stderr).toMatch(expected);
    expect(code).toBe(2);
  });

  it("a group without a verb shows its help on stderr", async () => {
    const { code, stdout, stderr } = await ottla(["topic"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("Usage: ottla topic");
  });

  it("with --json the error is JSON; with -vv there is a stack, without none", async () => {
    const asJson = await ottla(["produce", "t", "--acks", "2", "--json"]);
    expect(JSON.parse(asJson.stderr)).toMatchObject({ _version: 1, error: { code: "USAGE", exitCode: 2 } });
    expect((await ottla(["produce", "t", "--acks", "2", "-vv"])).stderr).toMatch(/\n {4}at /);
    expect((await ottla(["produce", "t", "--acks", "2", "-v"])).stderr).not.toMatch(/\n {4}at /);
  });
});

describe("no broker", () => {
  it("ends with 3 and says where it looked", async () => {
    const { code, stderr } = await ottla(["topic", "ls", "-b", "127.0.0.1:1", "--timeout", "300ms"]);
    expect(stderr).toMatch(/^error\[CONNECTION_FAILED\]: .*127\.0\.0\.1:1/);
    expect(stderr).toContain("\nhint: ");
    expect(code).toBe(3);
  });

  it("a bare --timeout is in seconds; with --json also the remark that it waits is JSON", async () => {
    const startedMs = performance.now();
    const { code, stderr, connecting } = await ottla(["topic", "ls", "-b", "127.0.0.1:1", "--timeout", "4", "--json"]);
    // It gives up when another try would not fit any more.
    expect(performance.now() - startedMs).toBeGreaterThan(1000);
    const lines = [connecting, stderr].map((text) => text.trimEnd());
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { _version: 1, remark: "waiting for a broker at 127.0.0.1:1" },
      { _version: 1, error: { code: "CONNECTION_FAILED", exitCode: 3 } },
    ]);
    expect(code).toBe(3);
  });

  it("says when a port is another program's", async () => {
    const ask = async (onSocket: (socket: Socket) => void) => {
      const server = createServer((socket) => {
        socket.on("error", () => undefined);
        onSocket(socket);
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const result = await ottla(["topic", "ls", "-b", `127.0.0.1:${port}`, "--timeout", "3s"]);
      server.close();
      return result;
    };
    const banner = await ask((socket) => socket.write("SSH-2.0-OpenSSH\r\n"));
    expect(banner.stderr).toMatch(/^error\[PROTOCOL_ERROR\]: 127\.0\.0\.1:\d+ answers, but is no Ottla broker\n/m);
    const dropping = await ask((socket) => socket.once("data", () => socket.destroy()));
    expect(dropping.stderr).toMatch(/\nhint: it takes connections but drops them: .*--bootstrap/);
    const silent = await ask(() => undefined);
    expect(silent.stderr).toMatch(/error\[CONNECTION_FAILED\]: 127\.0\.0\.1:\d+: no answer/);
    expect([banner, dropping, silent].map((result) => result.code)).toEqual([3, 3, 3]);
  });

  it("the flag wins over the environment", async () => {
    const { stderr } = await ottla(["topic", "ls", "--bootstrap-server", "127.0.0.1:1", "--timeout", "300ms"], {
      env: { OTTLA_BOOTSTRAP: "127.0.0.1:2" },
    });
    expect(stderr).toContain("127.0.0.1:1");
  });
});

describe("server start --check", () => {
  it("prints every value with its origin and writes nothing", async () => {
    const args = ["server", "start", "--check", "--node-id", "7", "--data-dir", "/nowhere/at/all", "--json"];
    const { code, stdout } = await ottla(args, { env: { OTTLA_SEGMENT_BYTES: "2MiB" } });
    expect(JSON.parse(stdout)).toMatchObject({
      _command: "server.start",
      config: {
        "node.id": { value: 7, origin: "flag --node-id" },
        "segment.bytes": { value: 2_097_152, origin: "environment OTTLA_SEGMENT_BYTES" },
        "num.partitions": { value: 1, origin: "default" },
      },
    });
    expect(code).toBe(0);
  });
});

describe("errors", () => {
  it("lists the table, tab-separated when not on a terminal", async () => {
    const { code, stdout } = await ottla(["errors"]);
    expect(stdout.split("\n")[0]).toBe("CODE\tNAME\tKAFKA\tRETRIABLE\tMEANING");
    expect(stdout).toMatch(/\n20\tSTORAGE_FULL\t56\tyes\t/);
    expect(code).toBe(0);
  });

  it("explains one, also in small letters and as JSON", async () => {
    expect((await ottla(["errors", "storage_full"])).stdout).toContain("free space");
    const { stdout } = await ottla(["errors", "20", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      _command: "errors",
      _version: 1,
      errors: [{ name: "STORAGE_FULL", code: 20 }],
    });
  });

  it("does not know a wrong one", async () => {
    const { code, stderr } = await ottla(["errors", "STORAGE_FUL"]);
    expect(stderr).toContain("did you mean STORAGE_FULL?");
    expect(code).toBe(4);
    expect((await ottla(["errors", "nope"])).stderr).toContain("hint: ottla errors lists all");
  });
});

describe("completion", () => {
  it("of bash completes verbs and flags", async () => {
    const { stdout } = await ottla(["completion", "bash"]);
    const ask = (words: readonly string[]) => {
      const script = `${stdout}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})\nCOMP_CWORD=${words.length - 1}\n_ottla\necho "\${COMPREPLY[@]}"`;
      return spawnSync("bash", ["-c", script], { encoding: "utf8" }).stdout.trim().split(" ");
    };
    expect(ask(["ottla", "to"])).toEqual(["topic"]);
    expect(ask(["ottla", "topic", "c"])).toEqual(["create"]);
    expect(ask(["ottla", "--json", "topic", "create", "--part"])).toEqual(["--partitions"]);
  });

  it.each(["zsh", "fish"])("of %s names the verbs", async (shell) => {
    const { code, stdout } = await ottla(["completion", shell]);
    expect(stdout).toContain("describe");
    expect(code).toBe(0);
  });
});
