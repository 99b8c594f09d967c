// The controller's queue of changes by itself: bounds, order, and every way in which a change can end.
import { describe, expect, it } from "vitest";
import { Proposals } from "../../../src/broker/quorum/proposals.ts";
import type { Decision } from "../../../src/metadata/controller.ts";
import { MetadataImage } from "../../../src/metadata/image.ts";
import type { Entry, ProposeResult, RequestResult, Term } from "../../../src/raft/types.ts";
import { idOf } from "./support.ts";

const ACCEPT: Decision = {
  kind: "records",
  records: [{ type: "cluster", version: 1, clusterId: idOf(1), metadataVersion: 1, timestampMs: 0 }],
};
const REFUSE: Decision = { kind: "refused", error: "INVALID_REQUEST", message: "no" };

function make(max = 10) {
  const state = {
    isController: true,
    isDiskFull: false,
    appliedEnd: 0,
    appended: 0,
    answer: undefined as ProposeResult | undefined,
    /** The quorum failed when what was appended was carried out. */
    isFailed: false,
    onAppended: (): void => undefined,
    reads: [] as number[],
    readResult: { kind: "started" } as RequestResult,
  };
  const proposals = new Proposals({
    max,
    image: () => new MetadataImage(),
    appliedEnd: () => state.appliedEnd,
    isController: () => state.isController,
    isDiskFull: () => state.isDiskFull,
    append: () => {
      const index = state.appended++;
      state.onAppended();
      return state.isFailed ? undefined : (state.answer ?? { kind: "accepted", index, term: 7 as Term });
    },
    read: (token) => {
      state.reads.push(token);
      return state.readResult;
    },
  });
  const commit = (index: number, term = 7): void => {
    state.appliedEnd = index + 1;
    const entry: Entry = { kind: "leaderStart", index, term: term as Term };
    proposals.onCommitted(entry);
    proposals.onProgress();
  };
  return { state, proposals, commit };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("a change", () => {
  it("is decided when the one before it is applied, and ends when it is applied itself", async () => {
    const { state, proposals, commit } = make();
    const order: string[] = [];
    const first = proposals.propose(() => (order.push("first decided"), ACCEPT)).then(() => order.push("first done"));
    const second = proposals
      .propose(() => (order.push("second decided"), ACCEPT))
      .then(() => order.push("second done"));
    await settled();
    expect(order).toEqual(["first decided"]);
    expect(proposals.count).toBe(2);
    commit(0);
    await first;
    expect(order.slice(0, 2)).toEqual(["first decided", "second decided"]);
    commit(1);
    await second;
    expect(order.at(-1)).toBe("second done");
    expect(state.appended).toBe(2);
  });

  it("is certainly not made: another leader's entry stands in its place", async () => {
    const { proposals, commit } = make();
    const change = proposals.propose(() => ACCEPT);
    commit(0, 8);
    expect(await change).toMatchObject({ error: "NOT_CONTROLLER" });
  });

  it("has an unknown end when the leadership goes meanwhile; what waited behind it is certainly not made", async () => {
    const { state, proposals } = make();
    const under = proposals.propose(() => ACCEPT);
    const waiting = proposals.propose(() => ACCEPT);
    state.isController = false;
    proposals.onProgress();
    expect(await under).toMatchObject({ error: "REQUEST_TIMED_OUT" });
    expect(await waiting).toMatchObject({ error: "NOT_CONTROLLER" });
    expect(state.appended).toBe(1);
  });

  it("has an unknown end when the quorum fails in the turn in which it is appended: the others may have been sent it", async () => {
    const { state, proposals } = make();
    state.onAppended = () => {
      state.isFailed = true;
      state.isController = false;
      proposals.close();
    };
    const under = proposals.propose(() => ACCEPT);
    const waiting = proposals.propose(() => ACCEPT);
    expect(await under).toMatchObject({ error: "REQUEST_TIMED_OUT" });
    expect(await waiting).toMatchObject({ error: "BROKER_NOT_AVAILABLE" });
    expect(state.appended).toBe(1);
    expect(proposals.count).toBe(0);
  });

  it("is refused at once: full queue, full disk, no leader, a closing broker, a core that is busy, too much for one message", async () => {
    const { state, proposals } = make(2);
    const under = proposals.propose(() => ACCEPT);
    const waiting = [proposals.propose(() => ACCEPT), proposals.propose(() => ACCEPT)];
    expect(await proposals.propose(() => ACCEPT)).toMatchObject({ error: "BUSY" });
    state.isController = false;
    state.isDiskFull = true;
    expect(await proposals.propose(() => ACCEPT)).toMatchObject({ error: "STORAGE_FULL" });
    state.isDiskFull = false;
    expect(await proposals.propose(() => ACCEPT)).toMatchObject({ error: "NOT_CONTROLLER" });
    proposals.close();
    expect(await under).toMatchObject({ error: "REQUEST_TIMED_OUT" });
    for (const decision of await Promise.all(waiting))
      expect(decision).toMatchObject({ error: "BROKER_NOT_AVAILABLE" });
    expect(await proposals.propose(() => ACCEPT)).toMatchObject({ error: "BROKER_NOT_AVAILABLE" });

    const busy = make();
    busy.state.answer = { kind: "busy", reason: "4096 entries wait" };
    expect(await busy.proposals.propose(() => ACCEPT)).toMatchObject({ error: "BUSY", message: "4096 entries wait" });
    const large = make();
    const owed = new Array(600_000).fill(1);
    const record = { type: "topic-removed", version: 1, topicId: idOf(1), owed };
    const decision = await large.proposals.propose(
      () => ({ kind: "records", records: [...ACCEPT.records, record] }) as unknown as Decision,
    );
    expect(decision).toMatchObject({ error: "MESSAGE_TOO_LARGE" });
  });

  it("whose decision throws rejects, and the next one goes on", async () => {
    const { proposals, commit } = make();
    const broken = proposals.propose(() => {
      throw new Error("a bug");
    });
    await expect(broken).rejects.toThrow("a bug");
    const next = proposals.propose(() => ACCEPT);
    commit(0);
    expect(await next).toEqual(ACCEPT);
  });
});

describe("changes of the cluster and of clients", () => {
  it("the cluster's own go first; then clients' in turn by source", async () => {
    const { state, proposals, commit } = make(100);
    const order: string[] = [];
    const ask = (name: string, source?: string) =>
      proposals.propose(() => {
        order.push(name);
        return ACCEPT;
      }, source);
    const changes = [ask("a1", "a"), ask("a2", "a"), ask("a3", "a"), ask("b1", "b"), ask("fence"), ask("elect")];
    for (let at = 0; at < changes.length; at++) commit(at);
    await Promise.all(changes);
    expect(order).toEqual(["a1", "fence", "elect", "a2", "b1", "a3"]);
    expect(state.appended).toBe(6);
  });

  it("clients that fill their room leave the cluster's alone, and the one with most is put off for others", async () => {
    const { proposals, commit } = make(16);
    const outcomes: string[] = [];
    const ask = async (name: string, source?: string) => {
      const decision = await proposals.propose(() => ACCEPT, source);
      outcomes.push(`${name} ${decision.kind === "refused" ? decision.error : "done"}`);
    };
    const changes = [ask("first")];
    for (let source = 0; source < 8; source++)
      for (let at = 0; at < 3; at++) changes.push(ask(`c${source}-${at}`, `c${source}`));
    await settled();
    expect(outcomes, "two of each have their place").toEqual(
      Array.from({ length: 8 }, (_, source) => `c${source}-2 BUSY`),
    );
    expect(proposals.count).toBe(17);
    outcomes.length = 0;
    changes.push(ask("other", "other"), ask("fence"));
    await settled();
    expect(outcomes).toEqual(["c0-1 BUSY"]);
    for (let at = 0; at < 18; at++) commit(at);
    await Promise.all(changes);
    expect(outcomes.slice(0, 4)).toEqual(["c0-1 BUSY", "first done", "fence done", "c0-0 done"]);
    expect(outcomes).toContain("other done");
    expect(outcomes).toHaveLength(19);
  });

  it("reads of clients that fill their room leave that of the cluster's own", async () => {
    const { state, proposals } = make(2);
    const reads = [proposals.barrier(), proposals.barrier()];
    expect(await proposals.propose(() => REFUSE, "a")).toMatchObject({ error: "BUSY" });
    const own = proposals.propose(() => REFUSE);
    await settled();
    expect(state.reads).toHaveLength(3);
    proposals.close();
    await Promise.all([...reads, own]);
  });
});

describe("what changes nothing", () => {
  for (const [what, decision] of [
    ["a refusal", REFUSE],
    ["an empty decision", { kind: "records", records: [] } satisfies Decision],
  ] as const)
    it(`${what} is answered only after a read went through, and does not hold up the next change`, async () => {
      const { state, proposals, commit } = make();
      const read = proposals.propose(() => decision);
      const change = proposals.propose(() => ACCEPT);
      await settled();
      expect(state.reads).toHaveLength(1);
      commit(0);
      expect(await change).toEqual(ACCEPT);
      proposals.onRead({ kind: "readable", token: state.reads[0] as number, end: 3 });
      await settled();
      state.appliedEnd = 3;
      proposals.onProgress();
      expect(await read).toEqual(decision);
      const late = proposals.propose(() => decision);
      await settled();
      proposals.onRead({ kind: "failed", token: state.reads[1] as number });
      expect(await late).toMatchObject({ error: "NOT_CONTROLLER" });
    });

  it("reads are bounded", async () => {
    const { proposals } = make(2);
    const reads = [proposals.barrier(), proposals.barrier()];
    expect((await proposals.barrier())?.code).toBe("BUSY");
    proposals.close();
    for (const error of await Promise.all(reads)) expect(error?.code).toBe("BROKER_NOT_AVAILABLE");
  });
});
