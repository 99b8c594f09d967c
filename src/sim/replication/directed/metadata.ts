// Stories about the metadata of partitions: who may be elected, what a change was decided on, what a restart means.
import type { DirectedSchedule, Stage } from "./stage.ts";

const committed = (stage: Stage): number => stage.world.checker.committedEnd(0);

function outOfSync(stage: Stage, number: number): void {
  stage.holdBetween(1, number);
  stage.produce(1);
  stage.until(() => !stage.isInSync(number));
}

/** Node 3 catches up, and node 1 wants it back; the wish stays on its way. */
function proposalOnItsWay(stage: Stage): void {
  outOfSync(stage, 3);
  stage.world.holdsProposals = true;
  stage.letGoBetween(1, 3);
  stage.until(() => stage.replica(1).core.isIsrChangePending);
}

export const METADATA_SCHEDULES: readonly DirectedSchedule[] = [
  {
    // The only one in sync is gone, and another one is there.
    mutant: "M8",
    invariants: [15],
    options: { minIsr: 1 },
    play: (stage) => {
      outOfSync(stage, 2);
      outOfSync(stage, 3);
      stage.node(1).kill();
      stage.run(2_000);
    },
  },
  {
    // The same wish comes twice, the second time when all has changed.
    mutant: "M13",
    invariants: [14],
    play: (stage) => {
      outOfSync(stage, 3);
      const { leaderEpoch, partitionEpoch } = stage.record;
      const isr = [1, 2].map((number) => ({
        nodeId: stage.node(number).nodeId,
        brokerEpoch: stage.node(number).brokerEpoch ?? -1,
      }));
      stage.letGoBetween(1, 3);
      stage.until(() => stage.isInSync(3));
      const { nodeId, brokerEpoch = -1 } = stage.node(1);
      const proposal = {
        kind: "propose-isr",
        leaderEpoch,
        partitionEpoch: partitionEpoch - 1,
        isr,
        wantsMove: false,
      } as const;
      stage.world.controller.alterPartition({ nodeId, brokerEpoch, partition: 0, proposal }, () => undefined);
    },
  },
  {
    // Node 3 is proposed, and comes back with an empty disk before that is decided (KIP-903).
    mutant: "M31",
    invariants: [13],
    play: (stage) => {
      proposalOnItsWay(stage);
      stage.wipe(3);
      stage.unfenced(3);
      stage.holdBetween(1, 3);
      stage.world.letProposalsGo();
      stage.run(100);
    },
  },
  {
    // Node 3 is proposed; a copy of that is late. It is fenced, so that another copy is refused; the leader goes on without it. It is unfenced.
    mutant: "R-32",
    invariants: [13],
    play: (stage) => {
      proposalOnItsWay(stage);
      stage.world.hold(3, 1);
      stage.cutFromController(3);
      stage.fenced(3);
      stage.world.holdsProposals = false;
      stage.until(() => !stage.replica(1).core.isIsrChangePending);
      stage.world.heal();
      stage.unfenced(3);
      stage.node(3).syncFactor = 100_000;
      const batch = stage.produce(1);
      stage.until(() => batch.isPromised);
      stage.world.letProposalsGo();
      stage.run(100);
    },
  },
  {
    // What was sent before the power was lost is not what is written at the same place afterwards.
    mutant: "D-1",
    invariants: [5, 7],
    play: (stage) => {
      stage.node(1).syncFactor = 100_000;
      stage.produce(1);
      stage.until(() => stage.replica(2).log.endOffset === 1);
      stage.losePower(1);
      stage.node(1).syncFactor = 1;
      stage.node(1).start();
      stage.unfenced(1);
      stage.run(50);
      for (const { core } of stage.node(1).replicas) if (core.role === "leader") stage.produce(1);
      stage.run(500);
    },
  },
  {
    // As above, by the other half of the rule: who is elected again leads in a new epoch.
    mutant: "D-1e",
    invariants: [5, 7],
    options: { nodes: 1, replicationFactor: 1 },
    play: (stage) => {
      stage.produce(1);
      stage.run(50);
      stage.node(1).kill();
      stage.node(1).start();
      stage.leads(1);
      stage.produce(1);
      stage.run(50);
    },
  },
  {
    // Two may commit from now on: without the third one, that was eligible while three were needed.
    mutant: "D-5",
    invariants: [13],
    options: { minIsr: 3 },
    play: (stage) => {
      outOfSync(stage, 3);
      stage.world.controller.setMinIsr(2);
      stage.produce(1);
      stage.until(() => committed(stage) > 0);
    },
  },
  {
    // Another disk: what was eligible is not there any more.
    mutant: "D-6",
    invariants: [13],
    options: { minIsr: 3 },
    play: (stage) => {
      stage.produce(1);
      stage.until(() => committed(stage) === 1);
      stage.wipe(3);
      stage.until(() => stage.node(3).brokerEpoch !== undefined);
      stage.run(100);
    },
  },
  {
    // All lose power: nobody has lost what was synced.
    mutant: "D-6p",
    invariants: [44],
    play: (stage) => {
      for (const number of [1, 2, 3]) stage.losePower(number);
      for (const number of [1, 2, 3]) stage.node(number).start();
      stage.until(() => stage.record.leader !== null && stage.record.leaderEpoch > 0);
    },
  },
  {
    // What node 3 had is damaged, and that is known; it begins anew. A leader that heard nothing meanwhile would still count on what it once had.
    mutant: "D-17e",
    invariants: [13],
    play: (stage) => {
      stage.produce(1);
      stage.until(() => stage.replica(3).core.highWatermark === 1);
      stage.world.hold(3, 1);
      stage.node(3).hurt.add(0);
      stage.replica(3).damage("rot");
      stage.until(() => !stage.isInSync(3));
      stage.until(() => !stage.replica(3).isDamaged);
      stage.run(1_500);
    },
  },
];
