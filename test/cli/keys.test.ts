// The keys of the live table.
import { describe, expect, it } from "vitest";
import { KeyReader } from "../../src/cli/launcher/keys.ts";

describe("keys", () => {
  it("a letter asks for the node, a digit answers", () => {
    const keys = new KeyReader([1, 2, 3]);
    expect(keys.read("k")).toEqual([]);
    expect(keys.prompt).toBe("kill -9 which node (1, 2, 3; q or Esc: none)? ");
    expect(keys.read("2")).toEqual([{ kind: "kill", nodeId: 2 }]);
    expect(keys.prompt).toBeNull();
    expect(keys.read("r1p3l2q")).toEqual([
      { kind: "start", nodeId: 1 },
      { kind: "pause", nodeId: 3 },
      { kind: "logs", nodeId: 2 },
      { kind: "quit" },
    ]);
  });

  it("a number that others begin with waits for Enter or more digits", () => {
    const keys = new KeyReader([1, 12, 3]);
    expect(keys.read("k1")).toEqual([]);
    expect(keys.prompt).toMatch(/\? 1$/);
    expect(keys.read("\r")).toEqual([{ kind: "kill", nodeId: 1 }]);
    expect(keys.read("k12")).toEqual([{ kind: "kill", nodeId: 12 }]);
    expect(keys.read("k1\u007f3")).toEqual([{ kind: "kill", nodeId: 3 }]);
  });

  it("Escape, another letter and Enter alone take a question back; unknown numbers are not taken", () => {
    const keys = new KeyReader([1, 2]);
    expect(keys.read("k\u001b1")).toEqual([]);
    expect(keys.prompt).toBeNull();
    expect(keys.read("k7")).toEqual([]);
    expect(keys.prompt).toMatch(/^no node 7: kill -9 which node .*\? $/);
    expect(keys.read("p")).toEqual([]);
    expect(keys.prompt).toMatch(/^pause which node/);
    expect(keys.read("q")).toEqual([]);
    expect(keys.prompt).toBeNull();
    expect(keys.read("p1")).toEqual([{ kind: "pause", nodeId: 1 }]);
    expect(keys.read("k\r")).toEqual([]);
    expect(keys.prompt).toBeNull();
  });

  it("one node needs no number", () => {
    expect(new KeyReader([7]).read("kr")).toEqual([
      { kind: "kill", nodeId: 7 },
      { kind: "start", nodeId: 7 },
    ]);
  });

  it("Ctrl-C interrupts also while a question stands; arrows mean nothing", () => {
    const keys = new KeyReader([1, 2]);
    expect(keys.read("k\u0003")).toEqual([{ kind: "interrupt" }]);
    expect(keys.prompt).toBeNull();
    expect(new KeyReader([1, 2]).read("\u001b[A\u001bOB\u001b[3~\u000c\u0004")).toEqual([
      { kind: "redraw" },
      { kind: "quit" },
    ]);
  });
});
