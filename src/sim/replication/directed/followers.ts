// Stories about followers: what they report, what they cut, what they keep.
import { CONTROLLER } from "../place.ts";
import type { DirectedSchedule, Stage } from "./stage.ts";

const committed = (stage: Stage): number => stage.world.checker.committedEnd(0);

/** Node 1 has a record more than anybody else, and is cut off; node 2 leads. */
function oneHasATail(stage: Stage): void {
  stage.produce(1);
  stage.until(() => committed(stage) === 1 && stage.replica(2).core.highWatermark === 1);
  stage.holdBetween(1, 2);
  stage.holdBetween(1, 3);
  stage.cutFromController(1);
  stage.produce(1);
  stage.until(() => stage.replica(1).log.durableEnd === 2);
  stage.leads(2);
}

/** Node 3 knows that five more are committed. All others lose everything, and an operator begins anew with node 2. */
export function startedUncleanly(stage: Stage, committedEnd = 5): void {
  for (let count = 0; count < 5; count++) stage.produce(1);
  stage.until(() => stage.replica(3).core.highWatermark === committedEnd);
  stage.until(() => stage.node(3).disk.logs[0]?.storedHighWatermark?.offset === committedEnd);
  stage.node(3).kill();
  stage.fenced(3);
  stage.wipe(2);
  stage.unfenced(2);
  stage.node(1).kill();
  stage.until(() => stage.record.leader === null);
  stage.world.controller.elect(0, "unclean");
  stage.leads(2);
}

export const FOLLOWER_SCHEDULES: readonly DirectedSchedule[] = [
  {
    // Accepted is not durable.
    mutant: "M3",
    invariants: [16],
    play: (stage) => {
      stage.node(2).syncFactor = 100_000;
      stage.produce(1);
      stage.run(50);
    },
  },
  {
    // Its tail is of an epoch that the new leader never had, and what the new leader wrote is put on top.
    mutant: "M6",
    invariants: [3, 5],
    play: (stage) => {
      oneHasATail(stage);
      stage.produce(2);
      stage.produce(2);
      stage.until(() => committed(stage) === 3);
      stage.world.heal();
      stage.letGoBetween(1, 2);
      stage.letGoBetween(1, 3);
      stage.run(1_500);
    },
  },
  {
    // 3 has what is committed, and does not know it yet when it gets another leader.
    mutant: "M7",
    invariants: [13],
    play: (stage) => {
      stage.produce(1);
      stage.until(() => stage.replica(3).log.durableEnd === 1);
      stage.world.hold(1, 3);
      stage.until(() => committed(stage) === 1);
      stage.node(1).kill();
      stage.leads(2);
      stage.run(200);
    },
  },
  {
    /*
     * In epoch 0 node 2 has what node 1 wrote, and says so; that is late. In epoch 1 it follows node 3, and cuts it. In epoch 2 node 1, which stood still
     * and has it, leads again: what node 2 said is of another time.
     */
    mutant: "M14",
    invariants: [9, 13],
    options: { sessionMs: 60_000, lagMaxMs: 5_000, isStepwise: false },
    play: (stage) => {
      stage.produce(1);
      stage.until(() => stage.replica(2).core.highWatermark === 1 && stage.replica(3).core.highWatermark === 1);
      stage.holdBetween(1, 3);
      stage.world.hold(2, 1);
      stage.produce(1);
      stage.until(() => stage.replica(2).log.durableEnd === 2);
      stage.run(5);
      stage.world.cut(CONTROLLER, 1);
      stage.world.controller.moveLeadership(0, stage.node(3).nodeId);
      stage.leads(3);
      stage.until(() => stage.replica(2).log.endOffset === 1 && !stage.replica(2).core.isCutting);
      stage.world.controller.moveLeadership(0, stage.node(1).nodeId);
      stage.run(20);
      stage.world.mend(CONTROLLER, 1);
      stage.leads(1);
      stage.letGoBetween(1, 3);
      stage.until(() => stage.replica(3).log.durableEnd === 2);
      stage.run(5);
      stage.world.letGo(2, 1);
      stage.run(50);
    },
  },
  {
    /*
     * Node 1 comes back with a tail that its new leader has not got; while it is told so, the tail is synced and reported. It says nothing about the log
     * that it has afterwards.
     */
    mutant: "D-3",
    invariants: [9, 13],
    options: { sessionMs: 60_000, lagMaxMs: 60_000 },
    play: (stage) => {
      stage.produce(1);
      stage.until(() => committed(stage) === 1);
      stage.node(1).syncFactor = 3_000;
      // The others never get what node 1 appends now.
      for (const other of [2, 3]) stage.world.cut(1, other);
      stage.produce(1);
      stage.run(5);
      for (const other of [2, 3]) stage.world.hold(other, 1);
      stage.world.heal();
      stage.world.controller.moveLeadership(0, stage.node(2).nodeId);
      stage.leads(2);
      stage.until(() => stage.replica(1).core.role === "follower");
      stage.run(300);
      stage.until(() => stage.replica(1).log.durableEnd === 2);
      stage.run(5);
      stage.node(1).syncFactor = 1;
      stage.world.letGo(2, 1);
      stage.until(() => stage.replica(1).log.endOffset === 1 && !stage.replica(1).core.isCutting);
      stage.run(20);
      stage.node(1).syncFactor = 100_000;
      stage.produce(2);
      stage.run(100);
    },
  },
  {
    // Its leader never had what it knows to be committed: it does not quietly forget it.
    mutant: "D-9",
    invariants: [12],
    play: (stage) => {
      startedUncleanly(stage);
      stage.produce(2);
      stage.node(3).start();
      stage.run(1_000);
    },
  },
  {
    // Begun anew it has other records at the same offsets; what was committed of the old ones says nothing about them.
    mutant: "D-7",
    invariants: [2, 3, 13],
    options: { minIsr: 2, lagMaxMs: 60_000 },
    play: (stage) => {
      startedUncleanly(stage);
      stage.node(3).start();
      stage.until(() => stage.node(3).replica(0)?.isDamaged === true);
      stage.until(() => !stage.replica(3).isDamaged && stage.isInSync(3));
      stage.leads(2);
      // More than once was committed, and of that the leader does not get its own part synced.
      stage.node(2).syncFactor = 100_000;
      for (let count = 0; count < 7; count++) stage.produce(2);
      stage.until(() => stage.replica(3).log.durableEnd === 7);
      stage.losePower(3);
      stage.node(3).start();
      stage.run(1_000);
    },
  },
];
