// Invariant 40: silent on what a sound cluster shows, loud on each planted anomaly.
import { describe, expect, it } from "vitest";
import type { Violation } from "../../src/checkers/checker.ts";
import { MetadataVisibilityChecker } from "../../src/checkers/metadata-visibility.ts";
import type { MetadataEvent, MetadataWish, TopicSeen } from "../../src/checkers/metadata-history.ts";

const WITHIN_MS = 100;

/** The first thing that is wrong with a history, in words. */
function wrong(...history: readonly MetadataEvent[]): string | undefined {
  const checker = new MetadataVisibilityChecker({ visibleWithinMs: WITHIN_MS });
  const found: (Violation | undefined)[] = history.map((event) => checker.observe(event));
  const first = [...found, checker.conclude()].find((each) => each !== undefined);
  if (first !== undefined) expect(first.invariant).toBe(40);
  return first?.message;
}

const topic = (topicId: string, other: Partial<TopicSeen> = {}): TopicSeen => ({
  topic: "t",
  topicId,
  isDeleting: false,
  configs: {},
  ...other,
});

/** One node's answer, a millisecond after it was asked. */
function saw(node: number, timeMs: number, metadataEnd: number, ...topics: readonly TopicSeen[]): MetadataEvent {
  const asked = ["t", "u"];
  return { type: "metadata seen", invokedMs: timeMs - 1, timeMs, process: "p", node, metadataEnd, asked, topics };
}

function change(wish: MetadataWish, operation: number, times: readonly [number, number], end: object): MetadataEvent[] {
  const [invokedMs, timeMs] = times;
  return [
    { type: "metadata invoked", timeMs: invokedMs, operation, process: "p", wish },
    { timeMs, operation, ...end } as MetadataEvent,
  ];
}

const created = (topicId: string, operation: number, times: readonly [number, number]) =>
  change({ kind: "create topic", topic: "t", configs: {} }, operation, times, {
    type: "metadata ok",
    result: { kind: "created", topicId },
  });
const deleted = (operation: number, times: readonly [number, number], type = "metadata ok") =>
  change({ kind: "delete topic", topic: "t" }, operation, times, { type, result: { kind: "done" } });
const healed = (timeMs: number, ...nodes: readonly number[]): MetadataEvent => ({
  type: "metadata healed",
  timeMs,
  nodes,
});
const mark = (type: "mark acknowledged" | "mark read", name: string, topicId: string): MetadataEvent => ({
  type,
  timeMs: 1,
  process: "p",
  topic: "t",
  topicId,
  partition: 0,
  offset: 0,
  mark: name,
});

describe("at one place in the log", () => {
  it("all nodes show the same", () => {
    expect(wrong(saw(1, 5, 7, topic("a")), saw(2, 9, 7, topic("a")))).toBeUndefined();
    expect(wrong(saw(1, 5, 7, topic("a")), saw(2, 9, 7))).toContain("node 2 says absent");
    expect(wrong(saw(1, 5, 7, topic("a")), saw(2, 9, 7, topic("b")))).toContain("at 7 t is a");
    const altered = topic("a", { configs: { size: "1" } });
    expect(wrong(saw(1, 5, 7, topic("a")), saw(2, 9, 7, altered))).toContain("size=1");
  });

  it("an id belongs to one name", () => {
    expect(wrong(saw(1, 5, 7, topic("a")), saw(2, 9, 8, topic("a", { topic: "u" })))).toContain("id a of t as u");
  });
});

describe("along the log", () => {
  it("other nodes may be late", () => {
    expect(wrong(saw(1, 5, 9), saw(2, 7, 8, topic("a")), saw(3, 9, 3), saw(1, 11, 10, topic("b")))).toBeUndefined();
  });

  it("a node's answers do not go back, unless they crossed", () => {
    expect(wrong(saw(1, 5, 9), saw(1, 7, 8))).toContain("node 1 showed the metadata up to 9");
    expect(wrong(saw(1, 5, 9), { ...saw(1, 7, 8), invokedMs: 4 } as MetadataEvent)).toBeUndefined();
    // The furthest of all counts, whichever came last.
    const crossed = { ...saw(1, 7, 8), invokedMs: 4 } as MetadataEvent;
    expect(wrong(saw(1, 5, 9), crossed, saw(1, 10, 8))).toContain("later only up to 8");
  });

  it("a topic that was gone does not come back, whoever shows it and when", () => {
    const [first, gone, back] = [saw(1, 5, 3, topic("a")), saw(2, 6, 5), saw(3, 7, 8, topic("a"))];
    expect(wrong(first, gone, back)).toContain("was gone at 5, and is back at 8");
    expect(wrong(back, first, gone)).toContain("was gone at 5, and is back at 8");
    expect(wrong(first, saw(2, 6, 5, topic("b")), back)).toContain("was gone at 5");
    expect(wrong(first, gone, saw(3, 7, 8, topic("b")))).toBeUndefined();
  });

  it("a topic that is being deleted does not recover", () => {
    const going = topic("a", { isDeleting: true });
    expect(wrong(saw(1, 5, 3, going), saw(2, 6, 4, topic("a")))).toContain("was being deleted before 4");
    expect(wrong(saw(1, 5, 3, topic("a")), saw(2, 6, 4, going), saw(2, 8, 5))).toBeUndefined();
  });

  it("two creations have two ids", () => {
    expect(wrong(...created("a", 1, [1, 2]), ...created("a", 2, [3, 4]))).toContain("two creations");
    expect(wrong(...created("a", 1, [1, 2]), ...created("b", 2, [3, 4]))).toBeUndefined();
  });
});

describe("after the heal", () => {
  const all = (timeMs: number, metadataEnd: number, ...topics: readonly TopicSeen[]) =>
    [1, 2, 3].map((node) => saw(node, timeMs, metadataEnd, ...topics));

  it("each node has to answer", () => {
    expect(wrong(healed(10, 1, 2), saw(1, 120, 5), saw(2, 60, 5))).toContain("node 2 said nothing");
    expect(wrong(healed(10, 1, 2), saw(1, 120, 5), saw(2, 120, 5))).toBeUndefined();
  });

  it("of some nodes, only those have to be right; the last heal's all have to answer", () => {
    const history = [...created("a", 1, [1, 2]), healed(10, 1, 2)];
    const here = topic("a");
    expect(wrong(...history, saw(1, 120, 5, here), saw(2, 120, 5, here), saw(3, 121, 1))).toBeUndefined();
    expect(wrong(...history, saw(1, 120, 5, here), saw(2, 121, 6))).toContain("but node 2 shows absent");
    const whole = [...history, saw(2, 121, 5, here), healed(200, 1, 2, 3)];
    expect(wrong(...whole, ...all(310, 6, here))).toBeUndefined();
    expect(wrong(...whole, saw(1, 310, 6, here), saw(2, 310, 6, here), saw(3, 250, 3))).toContain(
      "node 3 said nothing",
    );
    // A core that was whole before the rest has to have known then.
    expect(wrong(...history, saw(2, 121, 6), healed(200, 1, 2, 3), ...all(310, 7, here))).toContain("node 2 shows");
  });

  it("what was created is on every node, in time", () => {
    const history = [...created("a", 1, [1, 2]), healed(10, 1, 2, 3)];
    expect(wrong(...history, saw(1, 50, 3), ...all(120, 5, topic("a")))).toBeUndefined();
    expect(wrong(...history, ...all(120, 5, topic("a")), saw(2, 121, 6))).toContain(
      "created with the id a, but node 2",
    );
    expect(wrong(...history, ...all(120, 5))).toContain("node 1 shows absent");
    expect(wrong(...history, ...all(120, 5, topic("b")))).toContain("node 1 shows b");
    expect(wrong(...history, ...all(120, 5, topic("a", { isDeleting: true })))).toContain("being deleted");
    // Acknowledged after the heal: the time runs from there.
    const late = [healed(10, 1), ...created("a", 1, [100, 110])];
    expect(wrong(...late, saw(1, 150, 5), saw(1, 230, 6, topic("a")))).toBeUndefined();
    expect(wrong(...late, saw(1, 150, 5), saw(1, 230, 5))).toContain("created with the id a");
  });

  it("only what may have been deleted is let off", () => {
    const gone = [healed(10, 1, 2, 3), ...all(200, 5)];
    expect(wrong(...created("a", 1, [3, 4]), ...deleted(2, [5, 6]), ...gone)).toBeUndefined();
    expect(wrong(...created("a", 1, [3, 4]), ...deleted(2, [5, 6], "metadata unknown"), ...gone)).toBeUndefined();
    expect(wrong(...created("a", 1, [3, 4]), ...deleted(2, [5, 6], "metadata failed"), ...gone)).toContain("created");
    expect(wrong(...deleted(2, [1, 2]), ...created("a", 1, [3, 4]), ...gone)).toContain("created with the id a");
    const [open] = deleted(2, [1, 2]);
    expect(wrong(...(open === undefined ? [] : [open]), ...created("a", 1, [3, 4]), ...gone)).toBeUndefined();
  });

  it("what was deleted is on no node, in time", () => {
    const history = [...created("a", 1, [1, 2]), ...deleted(2, [3, 4]), healed(10, 1, 2, 3)];
    const going = topic("a", { isDeleting: true });
    expect(wrong(...history, saw(3, 50, 4, going), ...all(120, 5))).toBeUndefined();
    expect(wrong(...history, ...all(120, 5, topic("b")))).toBeUndefined();
    expect(wrong(...history, ...all(120, 5, topic("a")))).toContain("was deleted, but node 1 still shows a");
    expect(wrong(...history, ...all(120, 5, going))).toContain("was deleted, but node 1 still shows a");
    // A node that is mended later may hold a replica of it (seed 642000008).
    const core = [...history.slice(0, -1), healed(10, 1, 2), saw(1, 120, 5, going), healed(130, 1, 2, 3)];
    expect(wrong(...core, ...all(240, 6, topic("b")))).toBeUndefined();
    expect(wrong(...core, ...all(240, 6, going))).toContain("was deleted, but node 1 still shows a");
    // Created while it was being deleted: either may have been first.
    const crossed = [...created("a", 1, [1, 3.5]), ...deleted(2, [3, 4]), healed(10, 1, 2, 3)];
    expect(wrong(...crossed, ...all(120, 5, topic("a")))).toBeUndefined();
  });
});

describe("records", () => {
  it("stay with the topic that took them", () => {
    expect(wrong(mark("mark acknowledged", "m", "a"), mark("mark read", "m", "a"))).toBeUndefined();
    expect(wrong(mark("mark acknowledged", "m", "a"), mark("mark read", "m", "b"))).toContain(
      "p reads it from t of id b",
    );
    expect(wrong(mark("mark read", "m", "a"), mark("mark read", "m", "b"))).toContain("record m belongs to");
  });
});
