// Invariant 38 from end to end: real clients, whose histories the checker reads. A controller that was deposed and does not know it yet never
// answers out of its old image; without the read barrier (M38c: reads, M38a: refusals) the checker says so. A change whose answer was lost is
// done once; without request ids (M38d) the checker says so.
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { asOttlaError } from "../../src/model/errors.ts";
import { MetadataLinearizabilityChecker } from "../../src/checkers/metadata-linearizability.ts";
import type { Admin } from "../../src/client/types.ts";
import type { Violation } from "../../src/checkers/checker.ts";
import type { MetadataResult, MetadataWish } from "../../src/checkers/metadata-history.ts";
import { Fleet } from "../broker/fleet.ts";

const SEEDS = Array.from({ length: 4 }, (_, index) => index + 1);
const TOPIC = "quarrel";
/** The old controller gives up by itself a second after it last heard of the others: the answer must come before. */
const SHORT_MS = 100;

afterEach(() => activateMutants([]));

class History {
  readonly #fleet: Fleet;
  readonly #checker = new MetadataLinearizabilityChecker();
  #operations = 0;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  /** Runs one operation and writes it down. */
  async did(process: string, wish: MetadataWish, act: () => Promise<MetadataResult>): Promise<string> {
    const operation = this.#operations++;
    const { world } = this.#fleet;
    this.#checker.observe({ type: "metadata invoked", timeMs: world.nowMs, operation, process, wish });
    try {
      const result = await this.#fleet.settle(act());
      this.#checker.observe({ type: "metadata ok", timeMs: world.nowMs, operation, result });
      return "ok";
    } catch (thrown) {
      const { code, outcome } = asOttlaError(thrown);
      const ending = { timeMs: world.nowMs, operation };
      if (outcome !== undefined) this.#checker.observe({ type: "metadata unknown", ...ending, reason: code });
      else this.#checker.observe({ type: "metadata refused", ...ending, code });
      return code;
    }
  }

  get verdict(): Violation | undefined {
    return this.#checker.conclude();
  }
}

const look: MetadataWish = { kind: "describe topic", topic: TOPIC };

async function looked(admin: Admin, timeoutMs: number): Promise<MetadataResult> {
  const topics = await admin.listTopics({ linearizable: true, timeoutMs });
  const seen = topics.map(({ name, topicId, isDeleting, configs }) => ({ topic: name, topicId, isDeleting, configs }));
  return { kind: "topics", topics: seen };
}

/** The controller is cut off from the others; one of those creates a topic; somebody who knows only the old one looks, or deletes. */
async function deposed(seed: number, ask: "read" | "delete"): Promise<Violation | undefined> {
  const fleet = new Fleet({ seed });
  await fleet.start();
  const old = await fleet.controller();
  const others = [1, 2, 3].filter((nodeId) => nodeId !== old);
  const writer = await fleet.open("writer", others);
  const reader = await fleet.open("reader", [old]);
  await fleet.settle(reader.admin.listTopics({ linearizable: true }));
  await fleet.run(3000);
  const history = new History(fleet);
  fleet.isolate(old);
  await fleet.controller(old);
  const create: MetadataWish = { kind: "create topic", topic: TOPIC, configs: {} };
  await history.did("writer", create, async () => {
    const { topicId } = await writer.admin.createTopic(TOPIC, { partitions: 1 });
    return { kind: "created", topicId };
  });
  if (ask === "read") await history.did("reader", look, () => looked(reader.admin, SHORT_MS));
  else
    await history.did("reader", { kind: "delete topic", topic: TOPIC }, async () => {
      await reader.admin.deleteTopic(TOPIC, { timeoutMs: SHORT_MS });
      return { kind: "done" };
    });
  return history.verdict;
}

/** A topic is created, but the answer is lost; somebody deletes it; then the creation is asked for again. */
async function askedTwice(isPlanted = false): Promise<Violation | undefined> {
  const fleet = new Fleet({ seed: 1 });
  await fleet.start();
  const controller = await fleet.controller();
  const [maker, other] = [await fleet.open("maker"), await fleet.open("other")];
  await fleet.settle(maker.admin.listTopics({ linearizable: true }));
  const history = new History(fleet);
  const { name } = fleet.node(controller);
  fleet.network.cut(name, "maker");
  const create: MetadataWish = { kind: "create topic", topic: TOPIC, configs: {} };
  const creating = history.did("maker", create, async () => {
    const { topicId } = await maker.admin.createTopic(TOPIC, { partitions: 1 });
    return { kind: "created", topicId };
  });
  await fleet.until("it is there", async () => (await fleet.metadata(controller)).topics.length === 1);
  await history.did("other", look, () => looked(other.admin, 5000));
  await history.did("other", { kind: "delete topic", topic: TOPIC }, async () => {
    await other.admin.deleteTopic(TOPIC, { wait: true });
    return { kind: "done" };
  });
  await history.did("other", look, () => looked(other.admin, 5000));
  fleet.network.mend(name, "maker");
  // The planted bug may meet its own topic when it asks once more.
  expect(["ok", "TOPIC_ALREADY_EXISTS"].slice(0, isPlanted ? 2 : 1)).toContain(await fleet.settle(creating));
  await history.did("other", look, () => looked(other.admin, 5000));
  return history.verdict;
}

/** Seeds in which it shows. */
async function shownIn(ask: "read" | "delete"): Promise<number> {
  let count = 0;
  for (const seed of SEEDS) {
    const violation = await deposed(seed, ask);
    if (violation === undefined) continue;
    expect(violation.invariant).toBe(38);
    count++;
  }
  return count;
}

describe("a controller that was deposed and does not know it", () => {
  it("answers no read and refuses no change out of its old image", async () => {
    expect(await shownIn("read")).toBe(0);
    expect(await shownIn("delete")).toBe(0);
  });

  it("M38c: reads without the barrier are found stale", async () => {
    activateMutants(["M38c"]);
    expect(await shownIn("read")).toBeGreaterThan(0);
  });

  it("M38a: refusals without the barrier are found stale", async () => {
    activateMutants(["M38a"]);
    expect(await shownIn("delete")).toBeGreaterThan(0);
  });
});

describe("a creation whose answer was lost", () => {
  it("is done once, also when the topic was deleted before it is asked for again", async () => {
    expect(await askedTwice()).toBeUndefined();
  });

  it("M38d: without request ids the topic comes back", async () => {
    activateMutants(["M38d"]);
    expect((await askedTwice(true))?.invariant).toBe(38);
  });
});
