// deleteRecords: positions are looked up once, each leader is asked for its own partitions, and what does not come at once is asked again.
import { describe, expect, it } from "vitest";
import type { StartPosition } from "../../src/client/types.ts";
import { API } from "../../src/wire/native/apis.ts";
import { FakeBroker } from "./fake-broker.ts";
import { createWorld } from "./world.ts";

/** Topic t with partitions 0 and 2 led by broker 1, and 1 by broker 2; five records each. */
async function setUp() {
  const world = createWorld();
  const first = await FakeBroker.start(world);
  const second = await first.join();
  first.createTopic("t", 3);
  for (const index of [0, 1, 2]) {
    first.partition("t", index).leader = (index % 2) + 1;
    for (let count = 0; count < 5; count++) first.append("t", [`${count}`], index);
  }
  const client = await world.connect();
  return { time: world.time, first, second, client, admin: client.admin() };
}

describe("deleteRecords", () => {
  it.each<[string, StartPosition, number]>([
    ["all", "end", 5],
    ["what is below an offset", { offset: 2 }, 2],
    ["all but the last two", { fromEnd: 2 }, 3],
    ["nothing, where more are to stay than there are", { fromEnd: 9 }, 0],
    ["nothing, where the first is late enough", { timestamp: 1_000 }, 0],
    ["all, where none is late enough", { timestamp: 5_000 }, 5],
  ])("of %s", async (_what, before, startOffset) => {
    const { time, admin, client } = await setUp();
    const deleted = await time.until(admin.deleteRecords("t", before));
    expect(deleted).toEqual([0, 1, 2].map((partition) => ({ partition, startOffset })));
    await time.until(client.close());
  });

  it("asks each leader once, for its own", async () => {
    const { time, admin, first, second, client } = await setUp();
    await time.until(admin.deleteRecords("t", { offset: 2 }, { partitions: [2, 1, 2] }));
    const asked = [first, second].map((broker) =>
      broker.of(API.DELETE_RECORDS).map(({ request }) => request.entries.map(({ partition }) => partition)),
    );
    expect(asked).toEqual([[[2]], [[1]]]);
    await time.until(client.close());
  });

  it("what is asked for stays the same while it is tried again: records that come meanwhile stay", async () => {
    const { time, admin, first, client } = await setUp();
    let refusals = 2;
    first.onTrim = ({ partition }) => {
      if (partition !== 0 || refusals-- <= 0) return undefined;
      first.append("t", ["late"], 0);
      return "NOT_LEADER_OR_FOLLOWER";
    };
    const deleted = await time.until(admin.deleteRecords("t", "end", { partitions: [0] }));
    expect(deleted).toEqual([{ partition: 0, startOffset: 5 }]);
    expect(first.of(API.DELETE_RECORDS).map(({ request }) => request.entries[0]?.offset)).toEqual([5, 5, 5]);
    await time.until(client.close());
  });

  it("each partition has an error of its own; what no waiting helps is not asked again", async () => {
    const { time, admin, first, client } = await setUp();
    first.onTrim = ({ partition }) => (partition === 2 ? "POLICY_VIOLATION" : undefined);
    const deleted = await time.until(
      admin.deleteRecords("t", { offset: 3 }, { partitions: [0, 2, 7], timeoutMs: 2_000 }),
    );
    expect(deleted).toMatchObject([
      { partition: 0, startOffset: 3 },
      { partition: 2, startOffset: null, error: { code: "POLICY_VIOLATION" } },
      { partition: 7, startOffset: null, error: { code: "UNKNOWN_TOPIC_OR_PARTITION" } },
    ]);
    expect(first.of(API.DELETE_RECORDS).filter(({ request }) => request.entries[0]?.partition === 2)).toEqual([]);
    await time.until(client.close());
  });

  it("ends when its time is up, with what the leader said last", async () => {
    const { time, admin, first, client } = await setUp();
    first.onTrim = () => "REQUEST_TIMED_OUT";
    const deleted = await time.until(admin.deleteRecords("t", { offset: 3 }, { partitions: [0], timeoutMs: 1_500 }));
    expect(deleted).toMatchObject([{ partition: 0, startOffset: null, error: { code: "REQUEST_TIMED_OUT" } }]);
    expect(deleted[0]?.error).toMatchObject({ outcome: "unknown", hint: expect.stringContaining("harmless") });
    expect(deleted[0]?.error?.message).toContain("the records may still be deleted");
    await time.until(client.close());
  });

  it("of what no leader heard of, nothing is in doubt; of what one may have heard of, all is", async () => {
    const { time, admin, first, client } = await setUp();
    const options = { partitions: [0], timeoutMs: 2_000 };
    first.onTrim = () => "NOT_LEADER_OR_FOLLOWER";
    const [unheard] = await time.until(admin.deleteRecords("t", { offset: 3 }, options));
    expect(unheard?.error?.outcome).toBeUndefined();
    let asked = 0;
    first.onTrim = () => (asked++ === 0 ? "REQUEST_TIMED_OUT" : "NOT_LEADER_OR_FOLLOWER");
    const [heard] = await time.until(admin.deleteRecords("t", { offset: 3 }, options));
    expect(asked).toBeGreaterThan(1);
    expect(heard?.error).toMatchObject({ code: "NOT_LEADER_OR_FOLLOWER", outcome: "unknown" });
    await time.until(client.close());
  });

  it("takes positions and options as they are meant, or says what it takes", async () => {
    const { time, admin, client } = await setUp();
    const refused = { code: "INVALID_REQUEST" };
    await expect(admin.deleteRecords("t", "all" as "end")).rejects.toMatchObject(refused);
    await expect(admin.deleteRecords("t", { offset: -1 })).rejects.toMatchObject(refused);
    await expect(admin.deleteRecords("t", "end", { partitions: [] })).rejects.toMatchObject(refused);
    await time.until(client.close());
  });
});
