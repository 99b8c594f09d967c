// Invariant 38 over topics and configuration: silent on what sound metadata makes, loud on each planted anomaly, quick enough.
import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { MetadataLinearizabilityChecker } from "../../src/checkers/metadata-linearizability.ts";
import type { Violation } from "../../src/checkers/checker.ts";
import type { HistoryEvent } from "../../src/checkers/history.ts";
import type { ConfigValues, MetadataEvent, MetadataResult, MetadataWish } from "../../src/checkers/metadata-history.ts";
import { processorMs, slowness } from "../speed.ts";
import { soundHistory, withOneLie } from "./metadata-histories.ts";

function judged(history: readonly HistoryEvent[]): Violation | undefined {
  const checker = new MetadataLinearizabilityChecker();
  for (const event of history) checker.observe(event);
  return checker.conclude();
}

// --- short histories, one operation after the other unless they are interleaved by hand

class Story {
  readonly events: MetadataEvent[] = [];
  #operations = 0;

  begin(wish: MetadataWish): number {
    const operation = this.#operations++;
    this.events.push({ type: "metadata invoked", timeMs: this.events.length, operation, process: "p", wish });
    return operation;
  }
  end(operation: number, how: MetadataResult | string): this {
    const timeMs = this.events.length;
    if (typeof how !== "string") this.events.push({ type: "metadata ok", timeMs, operation, result: how });
    else if (how === "unknown" || how === "failed")
      this.events.push({ type: `metadata ${how}`, timeMs, operation, reason: "" });
    else this.events.push({ type: "metadata refused", timeMs, operation, code: how });
    return this;
  }
  did(wish: MetadataWish, how: MetadataResult | string): this {
    return this.end(this.begin(wish), how);
  }
  get verdict(): number | undefined {
    return judged(this.events)?.invariant;
  }
}

const create = (configs: ConfigValues = {}): MetadataWish => ({ kind: "create topic", topic: "t", configs });
const remove: MetadataWish = { kind: "delete topic", topic: "t" };
const look: MetadataWish = { kind: "describe topic", topic: "t" };
const list: MetadataWish = { kind: "list topics" };
const alter = (value: string | null): MetadataWish => ({
  kind: "alter topic configs",
  topic: "t",
  changes: [{ key: "size", value }],
});
const EXISTS = "TOPIC_ALREADY_EXISTS";
const MISSING = "UNKNOWN_TOPIC_OR_PARTITION";
const DONE: MetadataResult = { kind: "done" };
const made = (topicId: string): MetadataResult => ({ kind: "created", topicId });
const shows = (topicId: string, configs: ConfigValues = {}, isDeleting = false): MetadataResult => ({
  kind: "topics",
  topics: [{ topic: "t", topicId, isDeleting, configs }],
});
const NOTHING: MetadataResult = { kind: "topics", topics: [] };
const story = (): Story => new Story();

describe("topics", () => {
  it("live, are marked, and go at some time", () => {
    const life = story().did(create(), made("a")).did(look, shows("a")).did(create(), EXISTS).did(remove, DONE);
    expect(
      life
        .did(look, shows("a", {}, true))
        .did(create(), EXISTS)
        .did(remove, DONE).verdict,
    ).toBeUndefined();
    expect(life.did(look, NOTHING).did(remove, MISSING).did(create(), made("b")).did(list, shows("b")).verdict).toBe(
      undefined,
    );
  });

  it("that were created are there", () => {
    expect(story().did(create(), made("a")).did(look, NOTHING).verdict).toBe(38);
    expect(story().did(create(), made("a")).did(list, NOTHING).verdict).toBe(38);
    expect(story().did(create(), made("a")).did(remove, MISSING).verdict).toBe(38);
    expect(story().did(create(), made("a")).did(look, shows("b")).verdict).toBe(38);
  });

  it("that were deleted are not, once that was seen", () => {
    const deleted = () => story().did(create(), made("a")).did(remove, DONE);
    expect(deleted().did(look, shows("a")).verdict).toBe(38);
    expect(
      deleted()
        .did(look, NOTHING)
        .did(look, shows("a", {}, true)).verdict,
    ).toBe(38);
    expect(deleted().did(look, NOTHING).did(create(), EXISTS).verdict).toBe(38);
    expect(
      deleted()
        .did(create(), made("b"))
        .did(look, shows("a", {}, true)).verdict,
    ).toBe(38);
    expect(deleted().did(create(), made("a")).verdict).toBe(38);
  });

  it("exist once under a name", () => {
    expect(story().did(create(), made("a")).did(create(), made("b")).verdict).toBe(38);
    expect(story().did(create(), EXISTS).verdict).toBe(38);
  });

  it("that nobody was told to be created show one id, and no old one", () => {
    const lost = () => story().did(create(), "unknown");
    expect(lost().did(look, NOTHING).did(look, shows("a")).did(look, shows("a")).verdict).toBeUndefined();
    expect(lost().did(look, shows("a")).did(look, shows("b")).verdict).toBe(38);
    expect(lost().did(look, shows("a")).did(look, NOTHING).verdict).toBe(38);
    const twice = () => lost().did(look, shows("a")).did(remove, DONE).did(look, NOTHING).did(create(), "unknown");
    expect(twice().did(look, shows("b")).verdict).toBeUndefined();
    expect(twice().did(look, shows("a")).verdict).toBe(38);
    // The id that another creation was told of is no answer to it.
    expect(lost().did(look, shows("a")).did(remove, DONE).did(create(), made("a")).verdict).toBe(38);
  });

  it("whose creation failed for sure do not exist", () => {
    expect(story().did(create(), "failed").did(look, shows("a")).verdict).toBe(38);
    expect(story().did(create(), "STORAGE_FULL").did(look, shows("a")).verdict).toBe(38);
    expect(story().did(create(), "STORAGE_FULL").did(look, NOTHING).verdict).toBeUndefined();
  });

  it("may go late by a deletion of unknown outcome, once", () => {
    const lost = () => story().did(create(), made("a")).did(remove, "unknown").did(look, shows("a"));
    expect(lost().did(look, NOTHING).did(create(), made("b")).verdict).toBeUndefined();
    expect(lost().did(look, NOTHING).did(create(), made("b")).did(look, NOTHING).verdict).toBe(38);
  });

  it("are judged by what ran at the same time", () => {
    const during = story();
    const creating = during.begin(create());
    during.did(look, NOTHING).did(look, shows("a")).end(creating, made("a"));
    expect(during.verdict).toBeUndefined();
    const back = story();
    const again = back.begin(create());
    back.did(look, shows("a")).did(look, NOTHING).end(again, made("a"));
    expect(back.verdict).toBe(38);
  });
});

describe("configuration", () => {
  it("of a topic is what was set last", () => {
    const set = () =>
      story()
        .did(create({ size: "1" }), made("a"))
        .did(alter("2"), DONE);
    expect(
      set()
        .did(look, shows("a", { size: "2" }))
        .did(alter(null), DONE)
        .did(look, shows("a")).verdict,
    ).toBe(undefined);
    expect(set().did(look, shows("a", { size: "1" })).verdict).toBe(38);
    expect(set().did(look, shows("a")).verdict).toBe(38);
    expect(story().did(alter("2"), DONE).verdict).toBe(38);
    expect(story().did(alter("2"), MISSING).verdict).toBeUndefined();
    // Gone with the topic.
    const anew = set().did(remove, DONE).did(create(), made("b"));
    expect(anew.did(look, shows("b", { size: "2" })).verdict).toBe(38);
  });

  const owner = { broker: "" } as const;
  const set = (key: string, value: string | null): MetadataWish => ({
    kind: "alter broker configs",
    ...owner,
    changes: [{ key, value }],
  });
  const read: MetadataWish = { kind: "describe broker configs", ...owner };
  const are = (configs: ConfigValues): MetadataResult => ({ kind: "configs", configs });

  it("of the cluster is what was set last", () => {
    const both = () => story().did(read, are({})).did(set("a", "1"), DONE).did(set("b", "2"), "unknown");
    expect(
      both()
        .did(read, are({ a: "1" }))
        .did(read, are({ a: "1", b: "2" })).verdict,
    ).toBeUndefined();
    expect(
      both()
        .did(read, are({ a: "1", b: "2" }))
        .did(read, are({ a: "1" })).verdict,
    ).toBe(38);
    expect(both().did(read, are({ b: "2" })).verdict).toBe(38);
  });

  it("metadata.version is never lowered", () => {
    const raise = (version: number): MetadataWish => ({ kind: "raise metadata version", version });
    const ask: MetadataWish = { kind: "describe metadata version" };
    const is = (version: number): MetadataResult => ({ kind: "version", version });
    expect(story().did(ask, is(1)).did(raise(2), DONE).did(ask, is(2)).verdict).toBeUndefined();
    expect(story().did(raise(2), DONE).did(ask, is(1)).verdict).toBe(38);
    expect(story().did(raise(2), "unknown").did(ask, is(2)).did(ask, is(1)).verdict).toBe(38);
  });
});

describe("random histories", () => {
  it("of sound metadata are all explained", () => {
    const rng = createRng(38);
    for (let round = 0; round < 800; round++) {
      const shape = { operations: 5 + rng.below(60), clients: 1 + rng.below(6), names: 1 + rng.below(3) };
      const history = soundHistory(rng, { ...shape, unknownShare: rng.pick([0, 0.1, 0.3]) });
      const found = judged(history);
      if (found !== undefined) expect.fail(`round ${round}: ${found.message}`);
    }
  });

  it("with one topic missing from one answer are mostly not", () => {
    const rng = createRng(3838);
    let found = 0;
    for (let round = 0; round < 200; round++) {
      const sound = soundHistory(rng, { operations: 80, clients: 3, names: 2, unknownShare: 0.05 });
      const violation = judged(withOneLie(rng, sound));
      if (violation !== undefined) found++;
      if (violation !== undefined) expect(violation.message).not.toContain("not decided");
    }
    expect(found).toBeGreaterThan(100);
  });

  it("of 1,000 operations on one name by 8 clients, one in ten unknown, are decided within a second of computing", () => {
    const rng = createRng(1000);
    let slowestMs = 0;
    for (let round = 0; round < 20; round++) {
      const sound = soundHistory(rng, { operations: 1000, clients: 8, names: 1, unknownShare: 0.1 });
      const history = round % 2 === 0 ? sound : withOneLie(rng, sound);
      let found: ReturnType<typeof judged>;
      const tookMs = processorMs(() => {
        found = judged(history);
      });
      slowestMs = Math.max(slowestMs, tookMs);
      expect(found?.message ?? "").not.toContain("not decided");
      if (round % 2 === 0) expect(found).toBeUndefined();
    }
    console.log(`slowest ${slowestMs.toFixed(0)} ms`);
    expect(slowestMs / slowness()).toBeLessThan(1000);
  });
});
