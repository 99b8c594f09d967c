// The faults are over, for all or for a core alone: what can go on must go on (44, 45), and the replicas must be the same again.
import type { Rng } from "../../base/rng.ts";
import type { PartitionImage } from "../../metadata/image.ts";
import type { NodeId } from "../../model/ids.ts";
import { placeOf, SimBatch } from "./batch.ts";
import { ReplicationBroken } from "./violation.ts";
import type { SimNode } from "./node.ts";
import { CONTROLLER } from "./place.ts";
import type { SimReplica } from "./replica.ts";
import type { Workload } from "./workload.ts";
import type { ReplicationWorld } from "./world.ts";

const MEET_MS = 1_000;
const SETTLE_MS = 10_000;
const STEADY_MS = 2_500;

export function liveness(world: ReplicationWorld, workload: Workload, rng: Rng): void {
  if (!world.controller.hasTopic) {
    world.mark("never began");
    return;
  }
  world.isCalm = true;
  world.heal();
  world.controller.comeBack();
  for (const node of world.nodes) heal(node);
  // Who is there, and what the controller knows of it, agree again.
  world.runUntil(world.timeMs + MEET_MS);
  const core = rng.chance(0.5) ? new Set(world.nodes) : chooseCore(world, rng);
  const isAll = core.size === world.nodes.length;
  world.mark(isAll ? "all heal" : "only a core heals");
  for (const node of world.nodes) if (!core.has(node)) leaveBroken(world, rng, node);
  world.runUntil(world.timeMs + SETTLE_MS);
  rescue(world);
  const before = world.controller.partitions.map(({ index }) => world.checker.committedEnd(index));
  for (const { index, leader } of world.controller.partitions) produceOne(world, index, leader);
  world.runUntil(world.timeMs + STEADY_MS);
  for (const record of world.controller.partitions) {
    const progress = world.checker.committedEnd(record.index) - (before[record.index] ?? 0);
    if (!isDead(world, record))
      checkPartition(world, { record, core, progress, waitsSinceMs: workload.waitsSinceMs(record.index) });
  }
  world.isQuiet = true;
  world.runUntil(world.timeMs + STEADY_MS);
  for (const record of world.controller.partitions) if (!isDead(world, record)) checkEqual(world, record, core);
}

function heal(node: SimNode): void {
  node.syncFactor = 1;
  node.isDiskFull = false;
  node.resume();
  node.stay();
  if (!node.isUp) node.start();
}

/** For ever: down, or cut off from everybody. */
function leaveBroken(world: ReplicationWorld, rng: Rng, node: SimNode): void {
  if (rng.chance(0.5)) {
    node.kill();
    return;
  }
  for (const other of [CONTROLLER, ...world.nodes.map(({ nodeId }) => nodeId)]) {
    if (other === node.nodeId) continue;
    world.cut(node.nodeId, other);
    world.cut(other, node.nodeId);
  }
}

/** Some nodes that can go on with every partition; as few as the seed likes. */
function chooseCore(world: ReplicationWorld, rng: Rng): Set<SimNode> {
  const isEnough = (nodes: ReadonlySet<SimNode>): boolean =>
    world.controller.partitions.every((record) => {
      const inside = (members: readonly NodeId[]): SimNode[] =>
        members.map((member) => world.node(member)).filter((node) => nodes.has(node));
      const heirs = inside([...record.isr, ...record.elr]).filter((node) => !node.hurt.has(record.index));
      return inside(record.replicas).length >= record.minIsr && heirs.length > 0;
    });
  let core = new Set(world.nodes);
  for (const node of world.nodes) {
    const fewer = new Set(core);
    fewer.delete(node);
    if (rng.chance(0.7) && isEnough(fewer)) core = fewer;
  }
  return core;
}

/** An operator gives up what nobody has any more: only where nobody may lead (the checker knows why). */
function rescue(world: ReplicationWorld): void {
  let isNeeded = false;
  for (const { index, leader, isr, elr } of world.controller.partitions) {
    if (leader !== null || isr.length + elr.length > 0) continue;
    isNeeded = true;
    world.mark("rescued by an operator");
    world.controller.elect(index, "unclean");
  }
  if (isNeeded) world.runUntil(world.timeMs + SETTLE_MS);
}

/** Whatever the producers do, each partition is asked for progress. */
function produceOne(world: ReplicationWorld, partition: number, leader: NodeId | null): void {
  const replica = leader === null ? undefined : world.node(leader).replica(partition);
  replica?.produce(new SimBatch(world.nextBatch(), { recordCount: 1, acks: -1 }));
}

/** Beyond the atlas: no replica is left that could be begun with. */
function isDead(world: ReplicationWorld, { index, replicas }: PartitionImage): boolean {
  const isGone = replicas.every((member) => world.node(member).disk.logs[index]?.isDamaged === true);
  if (isGone) world.mark("every replica is damaged");
  return isGone;
}

function checkPartition(
  world: ReplicationWorld,
  {
    record,
    core,
    progress,
    waitsSinceMs = world.timeMs,
  }: {
    readonly record: PartitionImage;
    readonly core: ReadonlySet<SimNode>;
    readonly progress: number;
    readonly waitsSinceMs: number | undefined;
  },
): void {
  const { index, leader, isr, replicas, minIsr } = record;
  const isAll = core.size === world.nodes.length;
  const invariant = isAll ? 44 : 45;
  const there = replicas.filter((member) => core.has(world.node(member)));
  const state = `partition ${index}: leader ${leader ?? "none"}, ISR [${isr.join(" ")}], ELR [${record.elr.join(" ")}], min ISR ${minIsr}`;
  if (leader === null) throw new ReplicationBroken(invariant, `nobody leads after all has healed; ${state}`);
  const missing = there.filter((member) => !isr.includes(member));
  if (missing.length > 0)
    throw new ReplicationBroken(invariant, `nodes ${missing.join(" ")} are not in sync; ${state}`);
  const isStalled = there.length < minIsr;
  if (progress <= 0 && !isStalled) throw new ReplicationBroken(invariant, `nothing is committed; ${state}`);
  const waitedMs = world.timeMs - waitsSinceMs;
  if (waitedMs > STEADY_MS - 500 && !isStalled)
    throw new ReplicationBroken(invariant, `a producer has waited for ${waitedMs} ms; ${state}`);
}

/** What both have not let go. */
function haveSame(left: SimReplica, right: SimReplica): boolean {
  const from = Math.max(left.log.state.startOffset, right.log.state.startOffset);
  const [ours, theirs] = [left, right].map(({ batches }) => batches.slice(placeOf(batches, from)));
  return ours?.length === theirs?.length && ours?.every((batch, at) => batch === theirs?.[at]) === true;
}

/** Nothing is produced any more: whoever is in sync has the same log, all of it below the high watermark. */
function checkEqual(
  world: ReplicationWorld,
  { index, isr, leader, minIsr }: PartitionImage,
  core: ReadonlySet<SimNode>,
): void {
  const model = leader === null ? undefined : world.node(leader).replica(index);
  if (model === undefined) throw new ReplicationBroken(44, `nobody leads partition ${index}`);
  const { endOffset } = model.log;
  for (const member of isr) {
    if (!core.has(world.node(member))) continue;
    const replica = world.node(member).replica(index);
    const isSame = replica !== undefined && replica.log.durableEnd === endOffset && haveSame(replica, model);
    if (!isSame) throw new ReplicationBroken(3, `node ${member} has not what node ${leader} has of partition ${index}`);
    const { highWatermark, startOffset } = replica.core;
    if (startOffset < model.core.startOffset)
      throw new ReplicationBroken(
        20,
        `node ${member} has partition ${index} from ${startOffset} on, its leader let go what is below ${model.core.startOffset}`,
      );
    if (isr.length >= minIsr && highWatermark !== endOffset)
      throw new ReplicationBroken(
        44,
        `node ${member} knows ${highWatermark} of ${endOffset} of partition ${index} to be committed, and nothing moves`,
      );
  }
}
