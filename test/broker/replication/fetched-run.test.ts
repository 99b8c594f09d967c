// What a follower makes of the bytes that it got (B-18, B-19).
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../../src/base/bytes.ts";
import { addRuns } from "../../../src/broker/replication/fetched-run.ts";
import type { ProducerFields } from "../../../src/model/batch-header.ts";
import { contentAt } from "../../../src/model/producer-table.ts";
import { assignOffsets } from "../../../src/model/record-batch.ts";
import type { FetchedBatch } from "../../../src/replication/types.ts";
import { batchOf } from "../support.ts";
import { host } from "./nodes.ts";

interface Spec {
  readonly base: number;
  readonly epoch: number;
  readonly count?: number;
  readonly padBytes?: number;
  readonly producer?: ProducerFields;
}

function bytesOf(specs: readonly Spec[]): Uint8Array {
  return concatBytes(
    specs.map(({ base, epoch, count = 1, padBytes = 0, producer }) => {
      const batch = batchOf(
        Array.from({ length: count }, (_, index) => `${base + index}`),
        { padBytes, ...(producer === undefined ? {} : { producer }) },
      );
      assignOffsets(batch, base, epoch);
      return batch;
    }),
  );
}

function runsOf(body: Uint8Array): FetchedBatch<Uint8Array>[] | string {
  const runs: FetchedBatch<Uint8Array>[] = [];
  return addRuns(runs, body, host.checksum) ?? runs;
}

const shapeOf = (runs: FetchedBatch<Uint8Array>[] | string) =>
  typeof runs === "string" ? runs : runs.map(({ baseOffset, lastOffset, epoch }) => [baseOffset, lastOffset, epoch]);

describe("fetched batches", () => {
  it("become runs of one leader epoch, which together are the bytes that came", () => {
    const body = bytesOf([
      { base: 5, epoch: 1, count: 3 },
      { base: 8, epoch: 1 },
      { base: 9, epoch: 2 },
    ]);
    const runs = runsOf(body);
    expect(shapeOf(runs)).toEqual([
      [5, 8, 1],
      [9, 9, 2],
    ]);
    expect(concatBytes((runs as FetchedBatch<Uint8Array>[]).map((run) => run.body))).toEqual(body);
  });

  it("are views of the body, copied only where it is a small part of what it lies in (D-26)", () => {
    const body = bytesOf([{ base: 0, epoch: 1, padBytes: 1_000 }]);
    const alone = new Uint8Array(body);
    expect((runsOf(alone) as FetchedBatch<Uint8Array>[])[0]?.body.buffer).toBe(alone.buffer);
    const within = new Uint8Array(64 * 1024);
    within.set(body);
    const [run] = runsOf(within.subarray(0, body.length)) as FetchedBatch<Uint8Array>[];
    expect(run?.body.buffer).not.toBe(within.buffer);
    expect(run?.body).toEqual(body);
  });

  it("P-9: name those of their batches that have a producer, in order", () => {
    const producer = { producerId: 2 ** 40, producerEpoch: 3, baseSequence: 0x7fffffff };
    const first = { base: 5, epoch: 1, count: 3, producer };
    const second = { base: 9, epoch: 1, producer: { ...producer, baseSequence: 2 } };
    const runs = runsOf(
      bytesOf([first, { base: 8, epoch: 1 }, second, { base: 10, epoch: 2 }]),
    ) as FetchedBatch<Uint8Array>[];
    expect(runs.map(({ sequenced }) => sequenced)).toEqual([
      [
        { ...producer, baseOffset: 5, lastOffset: 7, crc: contentAt(bytesOf([first]), 0) },
        { ...producer, baseSequence: 2, baseOffset: 9, lastOffset: 9, crc: contentAt(bytesOf([second]), 0) },
      ],
      [],
    ]);
  });

  it("of many kilobytes become several runs", () => {
    const specs = Array.from({ length: 20 }, (_, index) => ({ base: index, epoch: 1, padBytes: 20_000 }));
    const runs = runsOf(bytesOf(specs)) as FetchedBatch<Uint8Array>[];
    expect(runs.length).toBeGreaterThan(2);
    for (const { body } of runs) expect(body.length).toBeLessThanOrEqual(128 * 1024);
    expect(runs.at(-1)?.lastOffset).toBe(19);
  });

  it("are not taken when one bit is another, wherever the checksum looks", () => {
    const body = bytesOf([
      { base: 0, epoch: 1 },
      { base: 1, epoch: 1 },
    ]);
    const half = body.length / 2;
    for (let at = half + 17; at < body.length; at++) {
      const bad = body.slice();
      bad[at] = (bad[at] as number) ^ 1;
      expect(typeof runsOf(bad)).toBe("string");
    }
  });

  it("are not taken torn, with a gap, an overlap, or an older epoch behind a newer", () => {
    const body = bytesOf([{ base: 0, epoch: 1 }]);
    for (let end = 1; end < body.length; end++) expect(typeof runsOf(body.slice(0, end))).toBe("string");
    const after = (spec: Spec) => runsOf(bytesOf([{ base: 0, epoch: 1, count: 2 }, spec]));
    expect(after({ base: 3, epoch: 1 })).toBe("offset 3 follows 1");
    expect(after({ base: 1, epoch: 1 })).toBe("offset 1 follows 1");
    expect(after({ base: 2, epoch: 0 })).toBe("leader epoch 0 follows 1");
    expect(shapeOf(after({ base: 2, epoch: 1 }))).toEqual([[0, 2, 1]]);
  });
});
