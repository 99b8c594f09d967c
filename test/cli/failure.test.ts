// What a failure is called, and the exit code a script sees.
import { describe, expect, it } from "vitest";
import { AssertionFailure } from "../../src/base/assert.ts";
import { CommandFailure, failureLines, failureOf, stackOf } from "../../src/cli/failure.ts";
import { startFailureOf } from "../../src/cli/node-runner.ts";
import { alignedTable, failureText, tabbedTable } from "../../src/cli/output.ts";
import { readable } from "../../src/cli/log-tail.ts";
import { type RemarkStyle, stderrLogger } from "../../src/cli/client.ts";
import { UsageError } from "../../src/cli/values.ts";
import { brokerConfigOf } from "../../src/model/config.ts";
import { type ErrorName, OttlaError } from "../../src/model/errors.ts";
import { EXIT } from "../../src/model/exit-codes.ts";
import { TransportError } from "../../src/ports/transport.ts";

const config = brokerConfigOf({ "node.id": 1, "data.dir": "/d" });

describe("failureOf", () => {
  const codes: [ErrorName, number][] = [
    ["CONNECTION_FAILED", EXIT.UNREACHABLE],
    ["REQUEST_TIMED_OUT", EXIT.UNREACHABLE],
    ["UNKNOWN_TOPIC_OR_PARTITION", EXIT.NOT_FOUND],
    ["CONFIG_UNREADABLE", EXIT.USAGE],
    ["INVALID_TOPIC_EXCEPTION", EXIT.USAGE],
    ["INVALID_PARTITIONS", EXIT.USAGE],
    ["INVALID_REPLICATION_FACTOR", EXIT.USAGE],
    ["INVALID_CONFIG", EXIT.USAGE],
    ["INVALID_REQUIRED_ACKS", EXIT.USAGE],
    ["DATA_DIR_LOCKED", EXIT.DATA_DIR_REFUSED],
    ["DATA_DIR_FOREIGN", EXIT.DATA_DIR_REFUSED],
    ["DATA_DIR_NEWER", EXIT.DATA_DIR_REFUSED],
    ["DATA_DIR_READ_ONLY", EXIT.DATA_DIR_REFUSED],
    ["DISK_FAILED", EXIT.DISK_FAILED],
    ["DATA_DAMAGED", EXIT.INVARIANT_BROKEN],
    ["NOT_ENOUGH_REPLICAS", EXIT.FAILED],
  ];

  it.each(codes)("%s ends with %i", (code, exitCode) => {
    expect(failureOf(new OttlaError(code))).toMatchObject({ code, exitCode });
  });

  it("a wrong flag, a bug, and the unforeseen", () => {
    expect(failureOf(new UsageError("no", "so"))).toEqual({
      code: "USAGE",
      message: "no",
      hint: "so",
      exitCode: EXIT.USAGE,
    });
    expect(failureOf(new AssertionFailure("x"))).toMatchObject({ code: "BUG", exitCode: EXIT.BUG });
    expect(failureOf(new Error("x"))).toMatchObject({ code: "UNEXPECTED", exitCode: EXIT.FAILED });
    expect(failureOf("x")).toMatchObject({ code: "UNEXPECTED", message: "x" });
  });

  it("keeps its words when it is sent to another process", () => {
    const failure = failureOf(new CommandFailure({ code: "A", message: "b", hint: "c", exitCode: 9 }));
    expect(JSON.parse(JSON.stringify(failure))).toEqual({ code: "A", message: "b", hint: "c", exitCode: 9 });
  });
});

describe("startFailureOf", () => {
  it("a disk that fails in recovery has its own exit code (D-13)", () => {
    expect(startFailureOf(new OttlaError("DISK_FAILED"), config).exitCode).toBe(EXIT.RECOVERY_FAILED);
  });

  it("a bug is one, also when the broker wrapped it", () => {
    const wrapped = new OttlaError("UNKNOWN_SERVER_ERROR", "x", { cause: new AssertionFailure("end moved back") });
    for (const thrown of [wrapped, new AssertionFailure("end moved back"), new TypeError("x is undefined")]) {
      expect(startFailureOf(thrown, config)).toMatchObject({ code: "BUG", exitCode: EXIT.BUG });
    }
    expect(startFailureOf(wrapped, config).message).toContain("end moved back");
    expect(startFailureOf(new OttlaError("UNKNOWN_SERVER_ERROR", "x"), config).exitCode).toBe(EXIT.FAILED);
  });

  it("says which address could not be listened on", () => {
    const failure = startFailureOf(new TransportError("address-in-use", "x"), config);
    expect(failure).toMatchObject({
      code: "PORT_IN_USE",
      message: expect.stringContaining(config.listeners) as string,
    });
    expect(startFailureOf(new TransportError("denied", "x"), config).code).toBe("CONFIG_UNREADABLE");
  });
});

describe("words", () => {
  it("are one line each, without control characters", () => {
    const lines = failureLines({ code: "X", message: "a\nb\u001b[31m\u0007", hint: "", exitCode: 1 });
    expect(lines).toEqual(["error[X]: a; b?[31m?"]);
  });

  it("in colour only the code is coloured; as JSON there is none", () => {
    const failure = { code: "X", message: "m", hint: "h", exitCode: 1 };
    expect(failureText(failure, { isJson: false, paint: true })).toBe("\u001b[31merror[X]\u001b[0m: m\nhint: h\n");
    expect(JSON.parse(failureText(failure, { isJson: true, paint: true }))).toEqual({ _version: 1, error: failure });
  });

  it("a stack names every cause", () => {
    const text = stackOf(new Error("outer", { cause: new Error("inner", { cause: "root" }) }));
    expect(text).toMatch(/outer[^]*caused by: Error: inner[^]*caused by: root/);
  });

  it("log lines lose their stacks and JSON, others stay", () => {
    const line = JSON.stringify({
      level: "error",
      time: "2026-01-02T03:04:05.678Z",
      node: "1",
      event: "node_failed",
      code: "X",
      stack: "long",
    });
    expect(readable(line)).toBe("03:04:05.678 error node_failed code=X");
    expect(readable("FATAL ERROR: heap out of memory")).toBe("FATAL ERROR: heap out of memory");
    expect(readable("x".repeat(500))).toHaveLength(500);
  });
});

describe("what the client says by itself", () => {
  const heard = (style: RemarkStyle) => {
    const said: string[] = [];
    const logger = stderrLogger(style, {}, (text) => void said.push(text));
    logger.warn("broker_lost", { address: "127.0.0.1:7070" });
    logger.info("broker_back", { address: "127.0.0.1:7070" });
    logger.info("anything", { else: 1 });
    return said;
  };

  it("a lost broker and its return are told in words without -v, and not with --quiet", () => {
    const words = ["lost the broker at 127.0.0.1:7070, trying again\n", "the broker at 127.0.0.1:7070 is back\n"];
    expect(heard({ verbosity: 0, isJson: false })).toEqual(words);
    expect(heard({ verbosity: 1, isJson: false })).toEqual([...words, "info: anything else=1\n"]);
    expect(heard({ verbosity: -1, isJson: false })).toEqual([]);
    expect(heard({ verbosity: 0, isJson: true }).map((line) => JSON.parse(line) as unknown)).toEqual(
      words.map((remark) => ({ _version: 1, remark: remark.trim() })),
    );
  });
});

describe("tables", () => {
  const table = {
    headers: ["NAME", "COUNT"],
    rows: [
      ["a", "5"],
      ["long\tname", "12"],
    ],
    right: [1],
  };

  it("are aligned on a terminal", () => {
    expect(
      alignedTable({
        ...table,
        rows: [
          ["a", "5"],
          ["longer", "12"],
        ],
      }),
    ).toBe("NAME    COUNT\na           5\nlonger     12\n");
  });

  it("are tab-separated elsewhere, and a cell cannot break a row", () => {
    expect(tabbedTable(table)).toBe("NAME\tCOUNT\na\t5\nlong name\t12\n");
  });
});
