// Each anomaly planted by hand: what the watch is shown is a core made of plain fields.
import { describe, expect, it } from "vitest";
import { createSimHost } from "../../scripts/sim-host.ts";
import { encodeCommand } from "../../src/metadata/codec.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { ClusterId, DirectoryId, IncarnationId, NodeId } from "../../src/model/ids.ts";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import { emptyState, foundingState, type RaftNode } from "../../src/raft/raft-node.ts";
import type { Configuration, Entry, Message, Ready, ReplicaId, Term, WriteBatch } from "../../src/raft/types.ts";
import type { Violation } from "../../src/checkers/checker.ts";
import { QuorumWatch } from "../../src/sim/quorum-watch.ts";
import { SimWorld } from "../../src/sim/world.ts";

const host = await createSimHost();
const uuid = (at: number): string => `${at}`.padEnd(22, "A");
const replica = (node: number, disk = "a"): ReplicaId => `${node}:${disk}` as ReplicaId;
const VOTERS: Configuration = { voters: [replica(1), replica(2), replica(3)], learners: [] };
const FOUNDED = foundingState(VOTERS);
const T1 = 1 as Term;

const CLUSTER: MetadataRecord = {
  type: "cluster",
  version: 1,
  clusterId: uuid(1) as ClusterId,
  metadataVersion: 1,
  timestampMs: 1,
};
const registration = (node: number): MetadataRecord => ({
  type: "register-broker",
  version: 1,
  nodeId: node as NodeId,
  directoryId: uuid(10 + node) as DirectoryId,
  incarnationId: uuid(20 + node) as IncarnationId,
  restart: "first",
  address: `node-${node}:1`,
  metadataVersions: { min: 1, max: 2 },
  timestampMs: 1,
});

/** Entry 0 is the founding one, 1 begins a term, 2 makes the cluster, the others register brokers. */
function entryAt(index: number, term = T1): Entry {
  if (index === 0) return { kind: "configuration", index, term: T1, configuration: VOTERS };
  if (index === 1) return { kind: "leaderStart", index, term };
  return { kind: "command", index, term, bytes: encodeCommand([index === 2 ? CLUSTER : registration(index)], 1) };
}

interface FakeCore {
  readonly self: ReplicaId;
  role: "leader" | "follower";
  term: Term;
  configuration: Configuration;
  snapshot: { end: number } | null;
  log: { start: number; commitEnd: number };
}

class Stage {
  readonly violations: Violation[] = [];
  readonly world = new SimWorld({ seed: 1, host });
  readonly watch = new QuorumWatch({
    world: this.world,
    onViolation: (violation) => void this.violations.push(violation),
  });

  start(node: number, restored = FOUNDED, disk = "a"): Actor {
    return new Actor(this, node, { restored, disk });
  }

  get broken(): number | undefined {
    return this.violations[0]?.invariant;
  }
}

class Actor {
  readonly core: FakeCore;
  readonly node: NodeId;
  readonly #stage: Stage;
  readonly #probe;

  constructor(stage: Stage, node: number, { restored, disk }: { restored: typeof FOUNDED; disk: string }) {
    this.#stage = stage;
    this.node = node as NodeId;
    this.core = {
      self: replica(node, disk),
      role: "follower",
      term: T1,
      configuration: VOTERS,
      snapshot: restored.snapshot,
      log: { start: restored.log.start, commitEnd: 0 },
    };
    this.#probe = stage.watch.probeOf(this.node);
    this.#probe.onRaftStarted(this.#asCore, restored);
  }

  get #asCore(): RaftNode {
    return this.core as unknown as RaftNode;
  }

  ready(write: Partial<WriteBatch> = {}): this {
    const whole = { id: 1, hardState: null, resetLogTo: null, cutSuffixTo: null, entries: [], cutPrefixTo: null };
    const batch: WriteBatch = { ...whole, messagesAfterSync: [], ...write };
    const rest = { messages: [], snapshotWrites: [], loadSnapshot: null, committed: [], reads: [] };
    this.#probe.onReady(this.#asCore, { write: batch, ...rest } satisfies Ready);
    return this;
  }

  leads(term: number): this {
    this.core.role = "leader";
    this.core.term = term as Term;
    return this;
  }

  append(from: number, end: number, term = T1): this {
    return this.ready({ entries: Array.from({ length: end - from }, (_, at) => entryAt(from + at, term)) });
  }

  commit(end: number): this {
    this.core.log.commitEnd = end;
    return this.ready();
  }

  send(message: Partial<Message>): this {
    this.#probe.onMessage({ from: this.core.self, to: replica(9), term: this.core.term, ...message } as Message);
    return this;
  }

  apply(end: number, change: (image: MetadataImage) => void = () => undefined): this {
    const image = new MetadataImage();
    for (let index = 0; index < end; index++) {
      if (index < 2) image.skip(index);
      else image.apply(index, index === 2 ? [CLUSTER] : [registration(index)]);
    }
    change(image);
    this.#probe.onApplied(image);
    return this;
  }

  end(): void {
    this.#stage.watch.ended(this.node);
  }
}

describe("the quorum's watch", () => {
  it("finds nothing wrong with a leader, a follower and a node that comes by a snapshot", () => {
    const stage = new Stage();
    const leader = stage
      .start(1)
      .leads(2)
      .append(1, 20, 2 as Term)
      .commit(20)
      .apply(16)
      .apply(20);
    stage
      .start(2)
      .append(1, 20, 2 as Term)
      .send({ kind: "appendMatched", end: 20 })
      .commit(18)
      .apply(16)
      .apply(18);
    const late = stage.start(3);
    late.core.log.start = 16;
    late.core.snapshot = { end: 16 };
    late.ready({ resetLogTo: { start: 16, startTerm: 2 as Term } }).apply(16);
    late
      .append(16, 20, 2 as Term)
      .commit(20)
      .apply(20);
    expect(stage.violations).toEqual([]);
    expect(stage.watch.committedEnd).toBe(20);
    expect(stage.watch.image.brokerCount).toBe(17);
    expect(stage.watch.controller).toBe(1);
    leader.end();
    expect(stage.watch.controller).toBeUndefined();
    expect(stage.watch.imageOf(1 as NodeId)).toBeUndefined();
  });

  it("37: two leaders of one term", () => {
    const stage = new Stage();
    stage.start(1).leads(2).ready();
    stage.start(2).leads(2).ready();
    expect(stage.broken).toBe(37);
  });

  it("37: a leader without a committed entry", () => {
    const stage = new Stage();
    stage
      .start(1)
      .leads(2)
      .append(1, 5, 2 as Term)
      .commit(5);
    stage.start(2).leads(3).ready();
    expect(stage.broken).toBe(37);
  });

  it("37: another entry committed at one place", () => {
    const stage = new Stage();
    stage
      .start(1)
      .leads(2)
      .append(1, 5, 2 as Term)
      .commit(5);
    stage
      .start(2)
      .append(1, 5, 3 as Term)
      .commit(5);
    expect(stage.broken).toBe(37);
  });

  it("37: a commit end that falls, a leader that cuts, a node that votes twice", () => {
    const falling = new Stage();
    falling.start(1).append(1, 5).commit(5).commit(4);
    const cutting = new Stage();
    cutting
      .start(1)
      .leads(2)
      .append(1, 5, 2 as Term)
      .ready({ cutSuffixTo: 3 });
    const voting = new Stage();
    const vote = { kind: "voteResponse", isPreVote: false, isGranted: true } as const;
    voting
      .start(1)
      .send({ ...vote, to: replica(2) })
      .end();
    voting.start(1).send({ ...vote, to: replica(3) });
    expect([falling.broken, cutting.broken, voting.broken]).toEqual([37, 37, 37]);
  });

  it("39: another state at an equal place", () => {
    const stage = new Stage();
    const node = stage
      .start(1)
      .leads(2)
      .append(1, 20, 2 as Term)
      .commit(20)
      .apply(15);
    const changed = new MetadataImage();
    for (let index = 0; index < 16; index++) {
      if (index < 2) changed.skip(index);
      else changed.apply(index, index === 2 ? [CLUSTER] : [registration(index === 15 ? 99 : index)]);
    }
    stage.watch.probeOf(node.node).onApplied(changed);
    expect(stage.broken).toBe(39);
  });

  it("39: more applied than is committed", () => {
    const stage = new Stage();
    stage
      .start(1)
      .leads(2)
      .append(1, 5, 2 as Term)
      .commit(4)
      .apply(5);
    expect(stage.broken).toBe(39);
  });

  it("39: at the end one is behind", () => {
    const stage = new Stage();
    stage
      .start(1)
      .leads(2)
      .append(1, 5, 2 as Term)
      .commit(5)
      .apply(5);
    stage
      .start(2)
      .append(1, 5, 2 as Term)
      .commit(5)
      .apply(4);
    stage.watch.compareAll([1 as NodeId]);
    expect(stage.broken).toBeUndefined();
    stage.watch.compareAll([1 as NodeId, 2 as NodeId]);
    expect(stage.broken).toBe(39);
  });

  it("16: a log that comes back shorter than was told, unless its disk was spoilt", () => {
    const claim = (stage: Stage): void => {
      stage.start(2).append(1, 5).send({ kind: "appendMatched", end: 5 }).end();
    };
    const stage = new Stage();
    claim(stage);
    stage.start(2);
    expect(stage.broken).toBe(16);
    const spoilt = new Stage();
    claim(spoilt);
    spoilt.watch.spoilt(replica(2));
    spoilt.start(2).append(1, 3).send({ kind: "appendMatched", end: 3 }).end();
    expect(spoilt.broken).toBeUndefined();
    spoilt.start(2);
    expect(spoilt.broken).toBe(16);
  });

  it("16: what a later leader cut is not missed", () => {
    const stage = new Stage();
    const node = stage.start(2).append(1, 5).send({ kind: "appendMatched", end: 5 });
    node.ready({ cutSuffixTo: 3 }).end();
    stage.start(2, { ...FOUNDED, log: { ...FOUNDED.log, entries: [0, 1, 2].map((index) => entryAt(index)) } });
    expect(stage.broken).toBeUndefined();
  });

  it("41: a leader that goes by voters who can decide apart from those agreed on", () => {
    const stage = new Stage();
    const configuration: Configuration = { voters: [replica(1)], learners: [] };
    const leader = stage
      .start(1)
      .leads(2)
      .append(1, 3, 2 as Term)
      .commit(3);
    leader.ready({ entries: [{ kind: "configuration", index: 3, term: 2 as Term, configuration }] });
    expect(stage.broken).toBe(41);
  });

  it("a committed command that no image takes is found (39)", () => {
    const stage = new Stage();
    const bytes = encodeCommand([registration(5)], 1);
    const leader = stage
      .start(1)
      .leads(2)
      .append(1, 2, 2 as Term);
    leader.ready({ entries: [{ kind: "command", index: 2, term: 2 as Term, bytes }] }).commit(3);
    expect(stage.broken).toBe(39);
  });

  it("counts moves of the controller, knows the voters in use and the disks of a node", () => {
    const stage = new Stage();
    stage
      .start(1)
      .leads(2)
      .append(1, 2, 2 as Term)
      .end();
    stage
      .start(2)
      .append(1, 2, 2 as Term)
      .leads(3)
      .ready()
      .end();
    stage.start(2, emptyState(), "b");
    expect(stage.watch.controllerMoves).toBe(1);
    expect(stage.watch.replicasOf(2 as NodeId)).toEqual([replica(2), replica(2, "b")]);
    const inUse = stage.watch.votersInUse((one) => one === replica(2));
    expect(inUse.length).toBe(2);
    expect(stage.violations).toEqual([]);
  });
});
