// Configuration from files, environment and flags: precedence, places, near misses.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { planCluster } from "../../src/cli/cluster-file.ts";
import {
  environmentRemarks,
  readDocument,
  resolveConfig,
  settingsOf,
  settingsOfEnvironment,
  settingsOfFlags,
  settingsOfPairs,
} from "../../src/cli/config-file.ts";
import { OttlaError } from "../../src/model/errors.ts";

const folder = mkdtempSync(join(tmpdir(), "ottla-config-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(text: string): string {
  const path = join(folder, "c.json");
  writeFileSync(path, text);
  return path;
}

function fault(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(OttlaError);
    const { code, message, hint } = error as OttlaError;
    expect(code).toBe("CONFIG_UNREADABLE");
    return `${message.replaceAll(folder, "")} | ${hint}`;
  }
  throw new Error("it was taken");
}

const fromFile = (text: string) => {
  const document = readDocument(file(text));
  return settingsOf(document, document.root);
};

describe("the environment", () => {
  it("has remarks about names that nothing reads, with the nearest key", () => {
    const environment = { OTTLA_SEGMNT_BYTES: "1", OTTLA_NODE_ID: "1", OTTLA_BOOTSTRAP: "x", OTTLA_TEST_DIST: "d" };
    expect(environmentRemarks(environment)).toEqual([
      "warning: OTTLA_SEGMNT_BYTES is no configuration key: did you mean OTTLA_SEGMENT_BYTES?",
    ]);
    expect(environmentRemarks({ OTTLA_COLOUR: "1", HOME: "/" })).toEqual([
      "warning: OTTLA_COLOUR is no configuration key",
    ]);
  });
});

describe("precedence", () => {
  it("flag > -X > environment > file > default, each with its origin", () => {
    const base = fromFile(`{ "node.id": 1, "data.dir": "/d",
      "segment.bytes": "1MiB", "journal.bytes": "1MiB", "num.partitions": 2 }`);
    const environment = settingsOfEnvironment({
      OTTLA_SEGMENT_BYTES: "2MiB",
      OTTLA_JOURNAL_BYTES: "2MiB",
      OTTLA_BOOTSTRAP: "x",
    });
    const pairs = settingsOfPairs(["segment.bytes=3MiB", "node.id=3"]);
    const flags = settingsOfFlags({
      "node.id": { flag: "--node-id", value: "4" },
      listeners: { flag: "--listeners", value: undefined },
    });
    const { config, origins } = resolveConfig([base, environment, pairs, flags]);
    expect(config).toMatchObject({
      "node.id": 4,
      "segment.bytes": 3 * 2 ** 20,
      "journal.bytes": 2 * 2 ** 20,
      "num.partitions": 2,
    });
    expect(origins["node.id"]).toBe("flag --node-id");
    expect(origins["segment.bytes"]).toBe("-X");
    expect(origins["journal.bytes"]).toBe("environment OTTLA_JOURNAL_BYTES");
    expect(origins["num.partitions"]).toMatch(/c\.json:2$/);
    expect(origins["listeners"]).toBe("default");
  });
});

describe("faults name file, line and key", () => {
  const check = (text: string) => fault(() => resolveConfig([fromFile(text)]));

  it("an unknown key, with the nearest", () => {
    expect(check('{\n  "node.id": 1,\n  "segment.byte": 4\n}')).toBe(
      '/c.json:3: unknown key "segment.byte" | did you mean "segment.bytes"?',
    );
  });

  it("a wrong value, with what the key takes", () => {
    expect(check('{\n"node.id": 1, "data.dir": "d",\n\n"segment.bytes": "4x"}')).toContain(
      '/c.json:4: "segment.bytes" takes an integer 1024 to 2147483647 bytes (also 64MiB), not "4x"',
    );
    expect(check('{"node.id": 0, "data.dir": "d"}')).toContain(
      '/c.json:1: "node.id" takes an integer 1 to 65535, not 0',
    );
    expect(check('{"node.id": 1, "data.dir": "d", "listeners": "x"}')).toContain("takes ws://host:port");
  });

  it("a value of several parts, a repeated key, a missing key", () => {
    expect(check('{"node.id": [1]}')).toContain('"node.id" takes a single value, not an array');
    expect(check('{"node.id": 1,\n"node.id": 2}')).toContain('/c.json:2: "node.id" stands twice');
    expect(check('{"data.dir": "d"}')).toContain('"node.id" is missing');
  });

  it("bytes that are no JSON", () => {
    expect(check('{\n "a": 1\n "b": 2}')).toContain("/c.json:3: not JSON: comma expected");
    expect(check("")).toContain("/c.json:1: ");
    expect(check("[]")).toContain("/c.json:1: a configuration file is one JSON object");
    expect(fault(() => readDocument(join(folder, "none.json")))).toContain("/none.json: no such file");
    expect(fault(() => readDocument(folder))).toContain("it is a directory");
  });
});

describe("cluster file", () => {
  const plan = (text: string, pairs: string[] = []) =>
    planCluster({ file: file(text), dataDir: folder, pairs, environment: {} });

  it("--listeners wins for the one node", () => {
    const sources = { file: "cluster.example.json", dataDir: "/d", pairs: ["listeners=ws://b:1"], environment: {} };
    const { nodes } = planCluster({ ...sources, listeners: "ws://127.0.0.1:7171" });
    expect(nodes.map((node) => node.config.listeners)).toEqual(["ws://127.0.0.1:7171"]);
  });

  it("the example is good", () => {
    const { nodes, cluster } = planCluster({ file: "cluster.example.json", dataDir: "/d", pairs: [], environment: {} });
    expect(cluster).toBe("local");
    expect(nodes.map((node) => [node.nodeId, node.config.listeners, node.config["data.dir"], node.logFile])).toEqual([
      [1, "ws://127.0.0.1:7070", "/d/node-1/data", "/d/node-1/log/ottla.log"],
    ]);
  });

  it("a node's own setting wins over defaults, -X over both", () => {
    const text =
      '{"defaults": {"num.partitions": 2, "journal.bytes": "1MiB"}, "nodes": [{"node.id": 5, "num.partitions": 3}]}';
    expect(plan(text, ["journal.bytes=2MiB"]).nodes[0]?.config).toMatchObject({
      "node.id": 5,
      "num.partitions": 3,
      "journal.bytes": 2 ** 21,
    });
  });

  it("more than one node is refused for now", () => {
    const text = '{"nodes": [{"node.id": 1},\n{"node.id": 2}]}';
    expect(fault(() => plan(text))).toContain("/c.json:2: 2 nodes: replication comes in a later release");
  });

  it("names misplaced keys", () => {
    expect(fault(() => plan('{"node": []}'))).toContain('did you mean "nodes"?');
    expect(fault(() => plan('{"nodes": 5}'))).toContain('"nodes" takes a list of nodes');
    expect(fault(() => plan('{"nodes": []}'))).toContain('"nodes" is empty');
    expect(fault(() => plan('{"nodes": [1]}'))).toContain("takes an object");
    expect(fault(() => plan('{"nodes": [{"listener": "x"}]}'))).toContain('did you mean "listeners"?');
    expect(fault(() => plan('{"nodes": [{}]}'))).toContain('"node.id" is missing');
  });
});
