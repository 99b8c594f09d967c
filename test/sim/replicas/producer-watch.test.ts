// What a replica must remember of producers, with each fault of its memory planted by hand.
import { describe, expect, it } from "vitest";
import type { ProducerView } from "../../../src/model/producer-table.ts";
import type { BatchSeen } from "../../../src/sim/replicas/epoch-truth.ts";
import { ProducerWatch } from "../../../src/sim/replicas/producer-watch.ts";

const REPLICA = {};

/** One record, with that sequence. */
function batch(base: number, sequence: number, { id = 7, epoch = 0 } = {}): BatchSeen {
  return {
    base,
    last: base,
    epoch: 0,
    sum: 0,
    numbers: { producerId: id, producerEpoch: epoch, baseSequence: sequence, crc: 0 },
  };
}
function view(producerId: number, sequences: readonly (readonly [number, number])[], producerEpoch = 0): ProducerView {
  const batches = sequences.map(([baseSequence, at]) => ({ baseSequence, baseOffset: at, lastOffset: at, crc: 0 }));
  return { producerId, producerEpoch, batches, carriedOffset: -1, carriedMs: -1 };
}
function watching(...batches: readonly BatchSeen[]): ProducerWatch {
  const watch = new ProducerWatch();
  watch.became(REPLICA, batches);
  return watch;
}

describe("invariant 25", () => {
  it("is kept by the last five batches of each producer, and of its last epoch only", () => {
    const watch = watching(...[0, 1, 2, 3, 4, 5].map((at) => batch(at, at)));
    const five = [1, 2, 3, 4, 5].map((at) => [at, at] as const);
    expect(watch.differenceOf(REPLICA, [view(7, five)])).toBeUndefined();
    watch.appended(REPLICA, batch(6, 0, { epoch: 1 }));
    expect(watch.differenceOf(REPLICA, [view(7, [[0, 6]], 1)])).toBeUndefined();
    watch.appended(REPLICA, { base: 7, last: 7, epoch: 0, sum: 0 });
    expect(watch.differenceOf(REPLICA, [view(7, [[0, 6]], 1)])).toBeUndefined();
  });

  it("finds a producer that is forgotten, one too many, a lost batch, another place and another epoch", () => {
    const watch = watching(batch(0, 0), batch(1, 1), batch(2, 0, { id: 8 }));
    const whole = [
      view(7, [
        [0, 0],
        [1, 1],
      ]),
      view(8, [[0, 2]]),
    ] as const;
    expect(watch.differenceOf(REPLICA, whole)).toBeUndefined();
    expect(watch.differenceOf(REPLICA, [whole[0]])).toContain("producers 8");
    expect(watch.differenceOf(REPLICA, [...whole, view(9, [[0, 3]])])).toContain("producer 9");
    expect(watch.differenceOf(REPLICA, [view(7, [[1, 1]]), whole[1]])).toContain("producer 7");
    expect(
      watch.differenceOf(REPLICA, [
        view(7, [
          [0, 0],
          [1, 3],
        ]),
        whole[1],
      ]),
    ).toContain("producer 7");
    expect(watch.differenceOf(REPLICA, [whole[0], view(8, [[0, 2]], 1)])).toContain("producer 8");
  });

  it("says nothing of a replica that it knows nothing of", () => {
    expect(new ProducerWatch().differenceOf(REPLICA, [view(7, [[0, 0]])])).toBeUndefined();
  });
});

describe("invariant 24", () => {
  it("forbids what is below an epoch that was given away, and nothing else", () => {
    const watch = new ProducerWatch();
    watch.gave(7, 1);
    watch.gave(7, 0);
    expect(watch.forbids(batch(0, 0, { epoch: 0 }))).toContain("producer 7");
    expect(watch.forbids(batch(0, 0, { epoch: 1 }))).toBeUndefined();
    expect(watch.forbids(batch(0, 0, { id: 8 }))).toBeUndefined();
    expect(watch.forbids({ base: 0, last: 0, epoch: 0, sum: 0 })).toBeUndefined();
  });
});
