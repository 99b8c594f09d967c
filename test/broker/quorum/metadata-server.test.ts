// Serving observers, by itself: what waits, what is answered at once, what is refused and why.
import { describe, expect, it } from "vitest";
import { bytesEqual } from "../../../src/base/bytes.ts";
import { MetadataServer } from "../../../src/broker/quorum/metadata-server.ts";
import type { RaftNode } from "../../../src/raft/raft-node.ts";
import type { Entry, SnapshotMeta, Term } from "../../../src/raft/types.ts";
import type { RaftStore } from "../../../src/storage/raft-types.ts";
import type { FetchMetadataRequest } from "../../../src/wire/native/quorum-apis.ts";
import { idOf, nodeId } from "./support.ts";

const CLUSTER = idOf(77);

interface FakeCore {
  start: number;
  /** One term each, from `start` on; all committed but the last `uncommitted`. */
  terms: number[];
  uncommitted: number;
  term: number;
  isLeaderReady: boolean;
  snapshot: SnapshotMeta | null;
}

function make(parts: Partial<FakeCore> = {}) {
  const core: FakeCore = {
    start: 0,
    terms: [1, 1, 2, 2],
    uncommitted: 0,
    term: 2,
    isLeaderReady: true,
    snapshot: null,
    ...parts,
  };
  const timers: { delayMs: number; run: () => void; isOver: boolean }[] = [];
  const commitEnd = (): number => core.start + core.terms.length - core.uncommitted;
  const entry = (index: number): Entry => ({
    kind: "leaderStart",
    index,
    term: (core.terms[index - core.start] ?? 0) as Term,
  });
  const node = {
    get log() {
      const end = core.start + core.terms.length;
      return { start: core.start, end, commitEnd: commitEnd(), durableEnd: end };
    },
    get term() {
      return core.term;
    },
    get isLeaderReady() {
      return core.isLeaderReady;
    },
    get snapshot() {
      return core.snapshot;
    },
    leader: `1:${idOf(1)}`,
    committedFrom(start: number, { entriesMax }: { entriesMax: number }) {
      if (start < core.start) return undefined;
      const length = Math.max(0, Math.min(entriesMax, commitEnd() - start));
      return Array.from({ length }, (_, at) => entry(start + at));
    },
  };
  const bytes = Uint8Array.from({ length: 600_000 }, (_, at) => at & 0xff);
  const server = new MetadataServer({
    clock: { monoMs: () => 0, wallMs: () => 0 },
    timers: {
      after: (delayMs, run) => {
        const timer = { delayMs, run, isOver: false };
        timers.push(timer);
        return { cancel: () => void (timer.isOver = true) };
      },
      defer: (run) => run(),
    },
    store: {
      readSnapshot: (end: number, at: number, length: number) =>
        Promise.resolve(end === core.snapshot?.end ? bytes.subarray(at, at + length) : undefined),
    } as unknown as RaftStore,
    core: () => node as unknown as RaftNode,
    clusterId: () => CLUSTER,
    onUnreadable: () => undefined,
  });
  return { server, core, timers, bytes };
}

const ask = (start: number, parts: Partial<FetchMetadataRequest> = {}): FetchMetadataRequest => ({
  clusterId: CLUSTER,
  nodeId: nodeId(4),
  start,
  startTerm: start === 0 ? 0 : start <= 2 ? 1 : 2,
  maxWaitMs: 500,
  maxBytes: 1_000_000,
  snapshotEnd: -1,
  snapshotPosition: 0,
  ...parts,
});

describe("a pull", () => {
  it("gets what is committed at once, and nothing that is not", async () => {
    const { server, core } = make({ uncommitted: 1 });
    expect((await server.fetch(ask(1))).response).toMatchObject({
      leaderId: 1,
      commitEnd: 3,
      start: 1,
      snapshot: null,
    });
    expect((await server.fetch(ask(1))).response.entries).toHaveLength(2);
    core.uncommitted = 0;
    expect((await server.fetch(ask(1))).response.entries).toHaveLength(3);
  });

  it("waits for news, as long as it said, and ends with the quorum", async () => {
    const { server, core, timers } = make();
    const waiting = server.fetch(ask(4));
    server.onProgress();
    core.terms.push(2);
    server.onProgress();
    expect((await waiting).response.entries).toHaveLength(1);
    const inVain = server.fetch(ask(5));
    expect(timers.at(-1)?.delayMs).toBe(500);
    timers.at(-1)?.run();
    expect((await inVain).response.entries).toEqual([]);
    const last = server.fetch(ask(5, { maxWaitMs: 10 ** 9 }));
    expect(timers.at(-1)?.delayMs).toBe(30_000);
    server.close();
    await expect(last).rejects.toMatchObject({ code: "BROKER_NOT_AVAILABLE" });
  });

  it("no more than so many wait", async () => {
    const { server } = make();
    const waiting = Array.from({ length: 1_024 }, () => server.fetch(ask(4)).catch(() => undefined));
    await expect(server.fetch(ask(4))).rejects.toMatchObject({ code: "BUSY" });
    server.close();
    await Promise.all(waiting);
  });

  it("from below the log gets the newest snapshot in pieces, from its beginning if it was in the middle of another", async () => {
    const configuration = { voters: [], learners: [] };
    const { server, core, bytes } = make({
      start: 100,
      snapshot: { end: 101, lastTerm: 1 as Term, sizeBytes: 600_000, configuration },
    });
    const first = await server.fetch(ask(5));
    expect(first.response.snapshot).toMatchObject({ end: 101, sizeBytes: 600_000, position: 0 });
    const next = await server.fetch(ask(5, { snapshotEnd: 101, snapshotPosition: first.bodies[0]?.length ?? 0 }));
    expect(next.response.snapshot?.position).toBe(256 * 1024);
    expect(bytesEqual(next.bodies[0] ?? new Uint8Array(0), bytes.subarray(256 * 1024, 512 * 1024))).toBe(true);
    expect(server.snapshotsInUse()).toEqual([101]);
    const other = await server.fetch(ask(5, { snapshotEnd: 50, snapshotPosition: 7 }));
    expect(other.response.snapshot?.position).toBe(0);
    core.snapshot = null;
    await expect(server.fetch(ask(5))).rejects.toMatchObject({ code: "BROKER_NOT_AVAILABLE" });
  });

  it("of another cluster is refused", async () => {
    const { server } = make();
    await expect(server.fetch(ask(0, { clusterId: idOf(5) }))).rejects.toMatchObject({
      code: "INCONSISTENT_CLUSTER_ID",
    });
  });
});

describe("a history that is not the quorum's any more", () => {
  const parted = { code: "METADATA_DIVERGED" };

  it("is told where the committed log has another term, and where a leader has nothing at all", async () => {
    const { server } = make();
    await expect(server.fetch(ask(2, { startTerm: 2 }))).rejects.toMatchObject(parted);
    await expect(server.fetch(ask(9, { startTerm: 2 }))).rejects.toMatchObject(parted);
  });

  it("is not: a voter that is behind, or a leader of before that does not know of its successor", async () => {
    const behind = make({ isLeaderReady: false });
    const one = behind.server.fetch(ask(9, { startTerm: 2 }));
    const stale = make({ term: 2, isLeaderReady: true });
    const other = stale.server.fetch(ask(9, { startTerm: 3 }));
    for (const timer of [...behind.timers, ...stale.timers]) timer.run();
    expect((await one).response.entries).toEqual([]);
    expect((await other).response.entries).toEqual([]);
  });
});
