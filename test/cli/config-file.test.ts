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
      '/c.json:4: "segment.bytes" takes 1024 to 2147483647 bytes (also 64MiB), not "4x"',
    );
    expect(check('{"node.id": 0, "data.dir": "d"}')).toContain('/c.json:1: "node.id" takes 1 to 65535, not 0');
    expect(check('{"node.id": 1, "data.dir": "d", "listeners": "x"}')).toContain("takes ws://host:port");
    expect(check('{"node.id": 1, "data.dir": "d", "listeners": "ws://a:65536"}')).toContain("takes ws://host:port");
    expect(check('{"node.id": 1, "data.dir": "d", "cluster.id": "x"}')).toContain("takes 22 characters of base64url");
    const voters = '"controller.quorum.voters": "1@a:65535,2@b:65536"';
    expect(check(`{"node.id": 1, "data.dir": "d", ${voters}}`)).toContain("takes 1@host:port");
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

  it("--listeners wins for the one node, and is refused for several", () => {
    const sources = { file: "cluster.example.json", dataDir: "/d", pairs: ["listeners=ws://b:1"], environment: {} };
    const { nodes } = planCluster({ ...sources, listeners: "ws://127.0.0.1:7171", nodeCount: 1 });
    expect(nodes.map((node) => node.config.listeners)).toEqual(["ws://127.0.0.1:7171"]);
    expect(() => planCluster({ ...sources, listeners: "ws://127.0.0.1:7171" })).toThrow("for a cluster of one node");
  });

  it("the example is good", () => {
    const { nodes, cluster } = planCluster({ file: "cluster.example.json", dataDir: "/d", pairs: [], environment: {} });
    expect(cluster).toBe("local");
    expect(nodes.map((node) => [node.nodeId, node.config.listeners, node.config["data.dir"], node.logFile])).toEqual([
      [1, "ws://127.0.0.1:7070", "/d/node-1/data", "/d/node-1/log/ottla.log"],
      [2, "ws://127.0.0.1:7071", "/d/node-2/data", "/d/node-2/log/ottla.log"],
      [3, "ws://127.0.0.1:7072", "/d/node-3/data", "/d/node-3/log/ottla.log"],
    ]);
    expect(nodes.map((node) => node.config["controller.quorum.voters"])).toEqual(
      Array.from({ length: 3 }, () => "1@127.0.0.1:7070,2@127.0.0.1:7071,3@127.0.0.1:7072"),
    );
  });

  it.each([
    [1, undefined],
    [2, "1"],
    [3, "1,2,3"],
    [4, "1,2,3"],
    [5, "1,2,3,4,5"],
    [6, "1,2,3,4,5"],
  ])("of %d nodes lets an odd number vote, five at most", (count, expected) => {
    const text = JSON.stringify({ nodes: Array.from({ length: count }, (_, index) => ({ "node.id": index + 1 })) });
    const { nodes } = plan(text);
    const voters = nodes.map((node) => node.config["controller.quorum.voters"]?.replace(/@[^,]*/g, ""));
    expect(voters).toEqual(Array.from({ length: count }, () => expected));
    expect(nodes.map((node) => node.config.listeners).at(-1)).toBe(`ws://127.0.0.1:${7069 + count}`);
  });

  it("takes the voters that the file gives, for all nodes alike, and names a wrong list", () => {
    const voters = "1@127.0.0.1:7070";
    const text = JSON.stringify({
      nodes: [{ "node.id": 1 }, { "node.id": 2, "controller.quorum.voters": voters }, { "node.id": 3 }],
    });
    expect(plan(text).nodes.map((node) => node.config["controller.quorum.voters"])).toEqual([voters, voters, voters]);
    expect(fault(() => plan(text, ["controller.quorum.voters=1@a:1,1@b:2"]))).toContain("node 1 stands twice");
    expect(fault(() => plan(text, ["controller.quorum.voters=one"]))).toContain("takes 1@host:port,2@host:port");
  });

  it("names a node's folder by its number, however that is written", () => {
    const [node] = plan('{"nodes": [{"node.id": "01"}]}').nodes;
    expect(node?.config).toMatchObject({ "node.id": 1, "data.dir": join(folder, "node-1", "data") });
  });

  it("faults come with hints that fit it", () => {
    expect(fault(() => plan('{"nodes": [{"node.id": 1}, {}]}'))).toBe(
      '"node.id" is missing | give each of "nodes" its own, such as {"node.id": 1}',
    );
    expect(fault(() => plan('{"colour": 1}'))).toBe(
      '/c.json:1: unknown key "colour" | its keys are cluster, data.dir, log.file.max.bytes, defaults, nodes',
    );
    const others = ['{"nodes": [{"node.id": "x"}]}', '{"nodes": [{"node.id": 1, "colour": 1}]}', "{", '{"nodes": []}'];
    for (const text of others) expect(fault(() => plan(text))).not.toMatch(/server start|--node-id|\| $/);
  });

  it("-n runs the first nodes, or makes more after the last one", () => {
    const text =
      '{"nodes": [{"node.id": 4, "listeners": "ws://127.0.0.1:9000", "num.partitions": 7}, {"node.id": 9, "listeners": "ws://127.0.0.1:9100"}]}';
    const planned = (nodeCount: number) => {
      const { nodes } = planCluster({ file: file(text), dataDir: folder, pairs: [], environment: {}, nodeCount });
      return nodes.map(({ nodeId, config }) => [nodeId, config.listeners]);
    };
    expect(planned(1)).toEqual([[4, "ws://127.0.0.1:9000"]]);
    expect(planned(4)).toEqual([
      [4, "ws://127.0.0.1:9000"],
      [9, "ws://127.0.0.1:9100"],
      [10, "ws://127.0.0.1:9101"],
      [11, "ws://127.0.0.1:9102"],
    ]);
    expect(fault(() => planned(17))).toContain("17 nodes: one launcher runs at most 16");
  });

  it("puts drawn ports in place of the file's, in the voters too", () => {
    const sources = {
      file: "cluster.example.json",
      dataDir: "/d",
      pairs: [],
      environment: {},
      ports: [11, 12, 13, 14],
    };
    const { nodes } = planCluster(sources);
    expect(nodes.map((node) => node.config.listeners)).toEqual([
      "ws://127.0.0.1:11",
      "ws://127.0.0.1:12",
      "ws://127.0.0.1:13",
    ]);
    expect(nodes[2]?.config["controller.quorum.voters"]).toBe("1@127.0.0.1:11,2@127.0.0.1:12,3@127.0.0.1:13");
  });

  it("dials a node that listens everywhere by loopback", () => {
    const text =
      '{"nodes": [{"node.id": 1, "listeners": "ws://0.0.0.0:1"}, {"node.id": 2, "listeners": "ws://host2.test:2"}, {"node.id": 3, "listeners": "ws://host3.test:3"}]}';
    expect(plan(text).nodes[0]?.config["controller.quorum.voters"]).toBe("1@127.0.0.1:1,2@host2.test:2,3@host3.test:3");
  });

  it("refuses nodes that would get into each other's way", () => {
    const two = (first: object, second: object) => () => plan(JSON.stringify({ nodes: [first, second] }));
    expect(fault(two({ "node.id": 1 }, { "node.id": 1 }))).toContain("nodes 1 and 1 have the same node.id 1");
    expect(fault(two({ "node.id": 1 }, { "node.id": 2, listeners: "ws://0.0.0.0:7070" }))).toContain(
      "nodes 1 and 2 have the same listeners 127.0.0.1:7070",
    );
    expect(fault(two({ "node.id": 1, "data.dir": "/x" }, { "node.id": 2, "data.dir": "/x" }))).toContain(
      "same data.dir /x",
    );
    expect(fault(two({ "node.id": 1, listeners: "ws://127.0.0.1:0" }, { "node.id": 2 }))).toContain(
      "node 1 has no port of its own (ws://127.0.0.1:0): its peers must find it | name a port for each node, or add --any-port",
    );
  });

  it("bounds the log files", () => {
    const bytes = (value: unknown) =>
      plan(JSON.stringify({ "log.file.max.bytes": value, nodes: [{ "node.id": 1 }] })).logBytesMax;
    expect(plan('{"nodes": [{"node.id": 1}]}').logBytesMax).toBe(16 * 2 ** 20);
    expect(bytes("64KiB")).toBe(65_536);
    expect(fault(() => bytes(5))).toContain('"log.file.max.bytes" takes 4096 bytes or more');
    expect(() => bytes("much")).toThrow('"log.file.max.bytes" takes a size such as');
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

  it("more nodes than one launcher runs are refused", () => {
    const nodes = Array.from({ length: 17 }, (_, index) => `{"node.id": ${index + 1}}`);
    expect(fault(() => plan(`{"nodes": [${nodes.join(",\n")}]}`))).toContain(
      "/c.json:17: 17 nodes: one launcher runs at most 16",
    );
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
