// Stories about producers with an id: what a replica must still know of them after a crash, a cut, or on another's log.
import type { SimBatch } from "../batch.ts";
import { startedUncleanly } from "./followers.ts";
import type { DirectedSchedule, Stage } from "./stage.ts";

const committed = (stage: Stage): number => stage.world.checker.committedEnd(0);

/** Five batches of producer 1 are committed, whoever heard of it. */
function fiveOfOne(stage: Stage): SimBatch[] {
  const sent = [0, 1, 2, 3, 4].map((sequence) => stage.send(1, { producerId: 1, producerEpoch: 0, sequence }));
  stage.until(() => committed(stage) === 5 && stage.replica(2).core.highWatermark === 5);
  return sent;
}

/** The next leader has been restarted since; what is sent again to it is in its log. */
function sentAgainAfterRestart(stage: Stage): void {
  const [first] = fiveOfOne(stage);
  stage.node(2).kill();
  stage.node(2).start();
  stage.until(() => stage.isInSync(2) && stage.node(2).replica(0)?.core.role === "follower");
  stage.node(1).kill();
  stage.leads(2);
  stage.sendAgain(2, first as SimBatch);
  stage.run(100);
}

/** The log begins behind the five batches, and node 3 has it from a new disk: what it knows of the producer it was told. */
function begunAnewBehind(stage: Stage): SimBatch {
  const [first] = fiveOfOne(stage);
  stage.replica(1).trim(5);
  stage.until(() => stage.replica(1).core.startOffset === 5);
  stage.wipe(3);
  stage.until(() => stage.isInSync(3) && stage.node(3).replica(0)?.core.role === "follower");
  return first as SimBatch;
}

export const PRODUCER_SCHEDULES: readonly DirectedSchedule[] = [
  {
    mutant: "M23",
    invariants: [25],
    play: sentAgainAfterRestart,
  },
  {
    // The same without a look into the tables: the producer itself is told something wrong.
    mutant: "M23",
    invariants: [21, 22, 23],
    options: { checksTables: false },
    play: sentAgainAfterRestart,
  },
  {
    // Five batches were on their way, and all answers are lost.
    mutant: "M23w",
    invariants: [23],
    options: { checksTables: false },
    play: (stage) => {
      for (const batch of fiveOfOne(stage)) stage.sendAgain(1, batch);
      stage.run(50);
    },
  },
  {
    // Node 1 alone has a batch, and is cut. Leading again, it is sent that batch once more: it has not got it.
    mutant: "D-15b",
    invariants: [22, 23, 25],
    options: { checksTables: false, sessionMs: 60_000 },
    play: (stage) => {
      stage.send(1, { producerId: 1, producerEpoch: 0, sequence: 0 });
      stage.until(() => committed(stage) === 1 && stage.replica(2).core.highWatermark === 1);
      stage.holdBetween(1, 2);
      stage.holdBetween(1, 3);
      const lost = stage.send(1, { producerId: 1, producerEpoch: 0, sequence: 1 });
      stage.until(() => stage.replica(1).log.durableEnd === 2);
      stage.world.controller.moveLeadership(0, stage.node(2).nodeId);
      stage.leads(2);
      stage.letGoBetween(1, 2);
      stage.letGoBetween(1, 3);
      stage.until(() => stage.replica(1).log.endOffset === 1 && !stage.replica(1).core.isCutting);
      stage.produce(2);
      stage.until(() => committed(stage) === 2 && stage.replica(1).core.highWatermark === 2);
      stage.world.controller.moveLeadership(0, stage.node(1).nodeId);
      stage.leads(1);
      stage.sendAgain(1, lost);
      stage.run(100);
      // What it took for a duplicate was never written.
      stage.send(1, { producerId: 1, producerEpoch: 0, sequence: 2 });
      stage.run(100);
    },
  },
  {
    // Others have written under its id before it did: what it sends is not what is there, and it would be told so to the next leader too.
    mutant: "D-15c",
    invariants: [23],
    options: { checksTables: false },
    play: (stage) => {
      const [first] = fiveOfOne(stage);
      stage.node(1).kill();
      stage.leads(2);
      stage.forge(2, first as SimBatch);
      stage.run(100);
    },
  },
  {
    // Its first batch is there, and it is forgotten: sent again to the next leader it looks like that of a new producer.
    mutant: "D-15f",
    invariants: [21],
    options: { checksTables: false, producersMax: 2 },
    play: (stage) => {
      const first = stage.send(1, { producerId: 1, producerEpoch: 0, sequence: 0 });
      for (const producerId of [2, 3]) stage.send(1, { producerId, producerEpoch: 0, sequence: 0 });
      stage.until(() => committed(stage) === 3 && stage.replica(2).core.highWatermark === 3);
      stage.node(1).kill();
      stage.leads(2);
      stage.sendAgain(2, first);
      stage.run(100);
    },
  },
  {
    mutant: "M24",
    invariants: [25],
    play: (stage) => {
      begunAnewBehind(stage);
      stage.world.controller.moveLeadership(0, stage.node(3).nodeId);
      stage.leads(3);
    },
  },
  {
    // The same without a look into the tables: the producer is told something wrong.
    mutant: "M24",
    invariants: [21, 22, 23],
    options: { checksTables: false },
    play: (stage) => {
      const first = begunAnewBehind(stage);
      stage.world.controller.moveLeadership(0, stage.node(3).nodeId);
      stage.leads(3);
      stage.sendAgain(3, first);
      stage.run(100);
    },
  },
  {
    // Begun anew after an unclean election it has another log, as long as the one that the image was made of.
    mutant: "D-15",
    invariants: [25],
    options: { minIsr: 2, lagMaxMs: 60_000 },
    play: (stage) => {
      for (const sequence of [0, 1, 2]) stage.send(1, { producerId: 1, producerEpoch: 0, sequence });
      stage.until(() => stage.node(3).disk.logs[0]?.image?.endOffset === 3);
      startedUncleanly(stage, 8);
      stage.node(3).start();
      stage.until(() => stage.node(3).replica(0)?.isDamaged === true);
      stage.until(() => !stage.replica(3).isDamaged && stage.isInSync(3));
      stage.leads(2);
      for (const sequence of [0, 1, 2]) stage.send(2, { producerId: 2, producerEpoch: 0, sequence });
      stage.until(() => committed(stage) === 3 && stage.replica(3).core.highWatermark === 3);
      stage.node(3).kill();
      stage.node(3).start();
      stage.run(1_000);
    },
  },
];
