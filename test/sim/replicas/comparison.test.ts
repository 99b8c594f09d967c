import { describe, expect, it } from "vitest";
import { createSimHost } from "../../../scripts/sim-host.ts";
import type { TopicId } from "../../../src/model/ids.ts";
import { ProducerTable } from "../../../src/model/producer-table.ts";
import { ReplicaComparison } from "../../../src/sim/replicas/comparison.ts";
import type { LogContent } from "../../../src/sim/platter.ts";

const host = await createSimHost();
const BATCH_BYTES = 61;

/** Batches of one record without a body; `filler` stands for what they hold. */
function content(offsets: readonly number[], highWatermark: number, filler = 7): LogContent {
  const bytes = new Uint8Array(offsets.length * BATCH_BYTES).fill(filler);
  const view = new DataView(bytes.buffer);
  offsets.forEach((offset, at) => {
    view.setBigInt64(at * BATCH_BYTES, BigInt(offset));
    view.setInt32(at * BATCH_BYTES + 8, BATCH_BYTES - 12);
  });
  const identity = { topicId: "t" as TopicId, topic: "t", partition: 0 };
  return { ...identity, startOffset: 0, highWatermark, bytes, producers: new ProducerTable() };
}

function compared(left: LogContent, right: LogContent): ReplicaComparison {
  const comparison = new ReplicaComparison({ checksum: host.checksum, codecs: host.codecs }, () => false);
  comparison.add("one", [left]);
  comparison.add("two", [right]);
  return comparison;
}

describe("replicas next to one another", () => {
  it("are equal below both high watermarks, whatever follows", () => {
    const comparison = compared(content([0, 1, 2], 3), content([0, 1], 2));
    expect(comparison.difference).toBeUndefined();
    expect(comparison.compared).toBe(1);
    expect(compared(content([0, 1], 0), content([0, 1], 2, 8)).difference).toBeUndefined();
  });

  it("differ in a byte, or where one of them ends too early", () => {
    expect(compared(content([0, 1], 2), content([0, 1], 1, 8)).difference).toContain("t-0 offset 0");
    expect(compared(content([0, 1], 2), content([0], 2)).difference).toContain("t-0 offset 1");
    expect(compared(content([0], 2), content([0, 1], 2)).difference).toContain("t-0 offset 1");
  });

  it("proves nothing where nothing is known to be committed", () => {
    const comparison = compared(content([0], 0), content([0], 1));
    expect(comparison.difference).toBeUndefined();
    expect(comparison.compared).toBe(0);
  });
});
