import { describe, expect, it } from "vitest";
import { createSimHost } from "../../../scripts/sim-host.ts";
import { concatBytes, utf8Encode } from "../../../src/base/bytes.ts";
import { assignOffsets } from "../../../src/model/batch-header.ts";
import type { TopicId } from "../../../src/model/ids.ts";
import { ProducerTable } from "../../../src/model/producer-table.ts";
import { RecordBatchBuilder } from "../../../src/model/records.ts";
import { ReplicaComparison } from "../../../src/sim/replicas/comparison.ts";
import { RecordTruth } from "../../../src/sim/replicas/record-truth.ts";
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
  const comparison = new ReplicaComparison(
    { checksum: host.checksum, codecs: host.codecs },
    { isCompacted: () => false, isDeleted: () => false },
  );
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

describe("replicas of a log that is compacted", () => {
  /** One record of one key in each batch; without a value: deleted. */
  function batchOf(offset: number, value: string | null): Uint8Array {
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
    const record = { key: utf8Encode("k"), headers: [], timestamp: 1000 };
    builder.tryAppend({ ...record, value: value === null ? null : utf8Encode(value) });
    const bytes = builder.build({ compression: "none", codecs: host.codecs, checksum: host.checksum });
    assignOffsets(bytes, offset, 0);
    return bytes;
  }
  const [first, second, deleted] = [batchOf(0, "1"), batchOf(1, "2"), batchOf(2, null)];

  /** Of all that was written, what each has left; committed below `committedEnd`. */
  function difference(
    written: readonly Uint8Array[],
    [left, right]: readonly [readonly Uint8Array[], readonly Uint8Array[]],
    committedEnd = 3,
  ): string | undefined {
    const truth = new RecordTruth({ checksum: host.checksum, codecs: host.codecs });
    for (const batch of written) truth.wrote(batch, 0, 0);
    const comparison = new ReplicaComparison(
      { checksum: host.checksum, codecs: host.codecs },
      {
        isCompacted: () => true,
        isDeleted: (_, record) => truth.isDeleted(record, ({ offset }) => offset < committedEnd),
      },
    );
    for (const [node, batches] of Object.entries({ left, right }))
      comparison.add(node, [{ ...content([], 3), bytes: concatBytes(batches) }]);
    return comparison.difference;
  }

  it("lack what a later record of the key explains, wherever that is", () => {
    expect(difference([first, second], [[first, second], [second]])).toBeUndefined();
  });

  it("differ where the last record of a key is on one of them alone", () => {
    expect(difference([first], [[first], []])).toContain("left has it, right has nothing of key k");
    expect(difference([first, second], [[second], []])).toContain("left has it, right has nothing of key k");
  });

  it("lack what was deleted by a record that is gone itself, if that was committed", () => {
    expect(difference([first, deleted], [[first], []])).toBeUndefined();
    expect(difference([first, deleted], [[first], []], 2)).toContain("left has it");
  });
});
