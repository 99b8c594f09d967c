// Stories about leaders: what is committed, who is told so, who counts.
import type { DirectedSchedule, Stage } from "./stage.ts";

const committed = (stage: Stage): number => stage.world.checker.committedEnd(0);

/** Nothing goes between node 1 and the others. */
function holdFromOne(stage: Stage): void {
  for (const other of [2, 3]) stage.holdBetween(1, other);
}

function slow(stage: Stage, ...numbers: readonly number[]): void {
  for (const number of numbers) stage.node(number).syncFactor = 100_000;
}

/** Ready to lose node 1: 2 has everything that is committed, and does not know that the last of it is. */
function secondKnowsLess(stage: Stage): void {
  stage.produce(1);
  stage.until(() => stage.replica(2).core.highWatermark === 1 && stage.replica(3).core.highWatermark === 1);
  // 3 hears nothing any more, and leaves the ISR.
  stage.holdBetween(1, 3);
  stage.produce(1);
  stage.until(() => !stage.isInSync(3));
  stage.until(() => stage.replica(2).core.highWatermark === 2);
  const last = stage.produce(1);
  stage.until(() => stage.replica(2).log.durableEnd === 3);
  stage.world.hold(1, 2);
  stage.until(() => last.isPromised);
  stage.replica(1).listLatest();
  stage.node(1).kill();
  stage.world.letGo(3, 1);
  stage.world.letGo(1, 3);
  stage.leads(2);
}

export const LEADER_SCHEDULES: readonly DirectedSchedule[] = [
  {
    // Acknowledged when the leader has it; the leader dies before anybody else has.
    mutant: "M1",
    invariants: [1],
    play: (stage) => {
      holdFromOne(stage);
      stage.produce(1);
      stage.run(5);
      stage.node(1).kill();
      stage.leads(2);
    },
  },
  {
    // Sent is not durable: the disks of the followers stand still.
    mutant: "M4",
    invariants: [9],
    play: (stage) => {
      slow(stage, 2, 3);
      stage.produce(1);
      stage.run(50);
    },
  },
  {
    // The largest durable end is the leader's own.
    mutant: "M5",
    invariants: [9],
    play: (stage) => {
      slow(stage, 2, 3);
      stage.produce(1);
      stage.run(50);
    },
  },
  {
    // The controller is out of reach, and the leader puts the silent followers out by itself.
    mutant: "M9",
    invariants: [9, 14],
    play: (stage) => {
      stage.world.controller.outage(5_000);
      holdFromOne(stage);
      stage.produce(1);
      stage.run(2_000);
    },
  },
  {
    // 3 is far behind, and is taken back for having asked.
    mutant: "M10",
    invariants: [13],
    play: (stage) => {
      stage.holdBetween(1, 3);
      stage.produce(1);
      stage.until(() => !stage.isInSync(3));
      for (let count = 0; count < 5; count++) stage.produce(1);
      stage.until(() => committed(stage) === 6);
      slow(stage, 3);
      stage.letGoBetween(1, 3);
      stage.run(1_000);
    },
  },
  {
    // The new leader does not know yet what is committed, and 3 has all that it knows of.
    mutant: "M11",
    invariants: [13],
    play: (stage) => {
      secondKnowsLess(stage);
      stage.node(3).syncFactor = 100_000;
      stage.run(1_000);
    },
  },
  {
    // A record that is older than the present one is given to the core again.
    mutant: "M12",
    invariants: [9, 14],
    options: { staleRecordChance: 1 },
    play: (stage) => {
      stage.holdBetween(1, 3);
      stage.produce(1);
      stage.until(() => !stage.isInSync(3));
      stage.letGoBetween(1, 3);
      stage.until(() => stage.isInSync(3));
      stage.run(1_000);
    },
  },
  {
    // One in sync, and min ISR is two.
    mutant: "M15",
    invariants: [9],
    play: (stage) => {
      holdFromOne(stage);
      stage.produce(1);
      stage.until(() => stage.record.isr.length === 1);
      stage.run(100);
    },
  },
  {
    // A consumer was told 3; the new leader knows of less, and must not say so.
    mutant: "M30",
    invariants: [10],
    play: (stage) => {
      secondKnowsLess(stage);
      stage.replica(2).listLatest();
    },
  },
  {
    // The leader stands still while others go on without it, and then trusts its own clock.
    mutant: "M32",
    invariants: [8],
    play: (stage) => {
      stage.node(1).syncFactor = 3_000;
      holdFromOne(stage);
      stage.produce(1);
      stage.run(0.5);
      stage.node(1).pause(2_000);
      // Its disk is done before anybody has told it.
      stage.cutFromController(1);
      stage.leads(2);
      stage.produce(2);
      stage.until(() => committed(stage) === 1);
      stage.run(3_000);
    },
  },
  {
    // A newcomer that is proposed does not hold the high watermark back; the controller takes it in when it lacks what was committed meanwhile.
    mutant: "D-8",
    invariants: [13],
    play: (stage) => {
      stage.holdBetween(1, 3);
      stage.produce(1);
      stage.until(() => !stage.isInSync(3));
      stage.letGoBetween(1, 3);
      stage.cutFromController(1);
      stage.until(() => stage.replica(1).core.isIsrChangePending);
      slow(stage, 3);
      stage.produce(1);
      stage.run(100);
      stage.world.heal();
      stage.run(1_000);
    },
  },
  {
    // It keeps pace, is about to join, and then stands still.
    mutant: "D-8w",
    invariants: [44],
    options: { sessionMs: 60_000 },
    play: (stage) => {
      stage.holdBetween(1, 3);
      stage.produce(1);
      stage.until(() => !stage.isInSync(3));
      stage.node(3).syncFactor = 100;
      for (let count = 0; count < 20; count++) stage.produce(1);
      stage.letGoBetween(1, 3);
      let steps = 0;
      stage.until(() => {
        if (steps++ % 15 === 0) stage.produce(1);
        const { followers, isIsrChangePending } = stage.replica(1).core;
        return !isIsrChangePending && followers.some(({ isCounted, isInSync }) => isCounted && !isInSync);
      }, 20_000);
      stage.node(3).pause(10_000);
      stage.run(3_000);
    },
  },
  {
    // Answered before the write has returned: a dead process would take it along.
    mutant: "D-36",
    invariants: [17],
    play: (stage) => {
      stage.produce(1, 1);
      stage.run(5);
    },
  },
];
