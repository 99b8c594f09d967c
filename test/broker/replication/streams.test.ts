// What followers fetch and leaders answer, over real logs.
import { describe, expect, it } from "vitest";
import { bytesEqual } from "../../../src/base/bytes.ts";
import { ReplicatingNodes } from "./nodes.ts";

describe("replication streams", () => {
  it("copies what the leader appends, byte for byte, and commits it", async () => {
    const nodes = await ReplicatingNodes.start();
    await nodes.apply({ leader: 1, leaderEpoch: 1 });
    const answers = [];
    for (let index = 0; index < 20; index++) answers.push(await nodes.node(1).settled(`value ${index}`));
    expect(answers.map(({ error, baseOffset }) => [error, baseOffset])).toEqual(
      answers.map((_, index) => ["NONE", index]),
    );
    const leader = await nodes.node(1).bytes();
    for (const nodeId of [2, 3]) {
      await nodes.until("caught up", () => nodes.node(nodeId).replica().core.durableEnd === 20);
      expect(bytesEqual(await nodes.node(nodeId).bytes(), leader)).toBe(true);
      await nodes.until("mark", () => nodes.node(nodeId).replica().core.highWatermark === 20, 100);
    }
  });
});
