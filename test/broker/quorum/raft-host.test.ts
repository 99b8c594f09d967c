// The host's duties to the core, one at a time: what leaves when, what a crash takes back, what a full disk does (D-19, D-1).
import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../../src/base/mutant.ts";
import { bytesEqual, utf8Encode } from "../../../src/base/bytes.ts";
import { encodeCommand } from "../../../src/metadata/codec.ts";
import { CLUSTER, type HandNode, HandQuorum, replica, settled } from "./hand-hosts.ts";
import { idOf } from "./support.ts";

afterEach(() => activateMutants([]));

const bytes = (node: HandNode): Uint8Array =>
  node.machine.image.cluster === undefined
    ? encodeCommand([{ type: "cluster", version: 1, clusterId: CLUSTER, metadataVersion: 2, timestampMs: 0 }], 2)
    : encodeCommand([{ type: "broker-config", version: 1, nodeId: null, configs: {} }], 2);

async function led(): Promise<{ quorum: HandQuorum; leader: HandNode; follower: HandNode; third: HandNode }> {
  const quorum = await HandQuorum.of(1, 2, 3);
  const [leader, follower, third] = quorum.nodes as [HandNode, HandNode, HandNode];
  leader.campaign();
  await quorum.run(1, 2, 3);
  expect(leader.host.core.role).toBe("leader");
  return { quorum, leader, follower, third };
}

const propose = (node: HandNode) => node.host.input((core) => core.propose({ bytes: bytes(node) }));
const holds = (node: HandNode, { index, term }: { index: number; term: number }): boolean =>
  node.store.entries.some((entry) => entry.index === index && entry.term === term);

describe("what waits for a sync", () => {
  /** An entry that only the leader and one follower have; both lose their power once the leader has answered for it. */
  async function answered(): Promise<{ survivors: HandNode[]; entry: { index: number; term: number } | undefined }> {
    const { quorum, leader, follower, third } = await led();
    const result = propose(leader);
    if (result?.kind !== "accepted") throw new Error("not accepted");
    await leader.store.sync();
    quorum.deliver(1, 2);
    quorum.deliver(2, 1);
    const isAnswered = leader.committed.some(({ index }) => index === result.index);
    leader.crash();
    follower.crash();
    follower.start();
    return { survivors: [follower, third], entry: isAnswered ? result : undefined };
  }

  it("D-19: an append is answered when it is durable, not before", async () => {
    const { entry } = await answered();
    expect(entry).toBeUndefined();
  });

  it("mutant D19s, answered before the sync: what the leader said was done is gone", async () => {
    activateMutants(["D19s"]);
    const { survivors, entry } = await answered();
    expect(entry).toBeDefined();
    for (const node of survivors) expect(holds(node, entry as { index: number; term: number })).toBe(false);
  });

  it("a cut of a conflicting suffix goes to the disk with the append that needed it, before the answer", async () => {
    const { quorum, leader, follower } = await led();
    propose(leader);
    await leader.store.sync();
    // Another leader with a log of its own, whose first entry conflicts.
    await quorum.run(2, 3);
    // Long enough for both to give the leader up, short of a campaign of their own.
    for (const node of quorum.nodes.slice(1)) node.pass(500);
    follower.campaign();
    await quorum.run(2, 3);
    expect(follower.host.core.role).toBe("leader");
    leader.outbox = [];
    quorum.deliver(2, 1);
    for (let round = 0; round < 4; round++) {
      quorum.deliver(1, 2);
      quorum.deliver(2, 1);
    }
    const writes = leader.store.pending.map(({ write }) => write);
    const cut = writes.find(({ cutSuffixTo }) => cutSuffixTo !== null);
    expect(cut?.entries.length).toBeGreaterThan(0);
    expect(cut?.entries[0]?.index).toBe(cut?.cutSuffixTo);
    const before = leader.outbox.filter(({ kind }) => kind === "appendMatched").length;
    await leader.store.sync();
    expect(leader.outbox.filter(({ kind }) => kind === "appendMatched").length).toBeGreaterThan(before);
  });
});

describe("votes", () => {
  /** Who a voter voted for in one term, with a power loss in between. */
  async function votes(): Promise<string[]> {
    const quorum = await HandQuorum.of(1, 2, 3);
    const voter = quorum.node(3);
    const granted: string[] = [];
    for (const candidate of [1, 2]) {
      quorum.node(candidate).campaign();
      // The pre-vote, then the vote; what a leader sends after that does not arrive.
      for (let round = 0; round < 2; round++) {
        await quorum.node(candidate).store.sync();
        quorum.deliver(candidate, 3);
        await voter.store.sync();
        for (const message of voter.outbox)
          if (message.kind === "voteResponse" && !message.isPreVote && message.isGranted)
            granted.push(`${message.to} in ${message.term}`);
        quorum.deliver(3, candidate);
      }
      voter.crash();
      voter.start();
    }
    return [...new Set(granted)];
  }

  it("Q-1: are durable before they are given: nobody gets a second one", async () => {
    expect(await votes()).toEqual([`${replica(1)} in 2`]);
  });

  it("mutant D19h, term and vote are not written: two candidates of one term get it", async () => {
    activateMutants(["D19h"]);
    expect(await votes()).toEqual([`${replica(1)} in 2`, `${replica(2)} in 2`]);
  });
});

describe("D-1: a leader that starts again", () => {
  /**
   * It is elected in a term and appends; a follower has its entries, its own disk has only its vote when the power goes. The third voter,
   * who knows nothing of that, elects it again, and it appends something else.
   */
  async function again(): Promise<{ terms: number[]; isSplit: boolean }> {
    const { quorum, leader, follower, third } = await led();
    leader.crash();
    leader.start();
    leader.campaign();
    await elect(quorum, 2);
    const { term } = leader.host.core;
    leader.host.input((core) => core.propose({ bytes: command("one") }));
    for (let round = 0; round < 3; round++) {
      quorum.deliver(1, 2);
      await follower.store.sync();
      quorum.deliver(2, 1);
    }
    expect(follower.store.entries.at(-1)).toMatchObject({ kind: "command", term });
    follower.outbox = [];
    leader.crash();
    leader.start();
    third.pass(500);
    leader.campaign();
    await elect(quorum, 3);
    leader.host.input((core) => core.propose({ bytes: command("other") }));
    await quorum.run(1, 2, 3);
    const places = new Map(leader.store.entries.map((entry) => [`${entry.index} in ${entry.term}`, entry]));
    const isSplit = follower.store.entries.some((entry) => {
      const place = places.get(`${entry.index} in ${entry.term}`);
      return place !== undefined && !bytesEqual(place.bytes, entry.bytes);
    });
    return { terms: [term, leader.host.core.term], isSplit };
  }

  const command = (key: string): Uint8Array =>
    encodeCommand(
      [{ type: "cluster", version: 1, clusterId: idOf(90), metadataVersion: 2, timestampMs: key.length }],
      2,
    );

  /** With one voter's help, and what the leader appends then does not reach its disk. */
  async function elect(quorum: HandQuorum, helper: number): Promise<void> {
    const leader = quorum.node(1);
    for (let round = 0; round < 4 && leader.host.core.role !== "leader"; round++) {
      await leader.store.sync();
      quorum.deliver(1, helper);
      await quorum.node(helper).store.sync();
      quorum.deliver(helper, 1);
    }
    expect(leader.host.core.role).toBe("leader");
  }

  it("never leads the term again in which it led: its entries of that term may be gone from its disk", async () => {
    const { terms, isSplit } = await again();
    expect(terms[1]).toBeGreaterThan(terms[0] as number);
    expect(isSplit).toBe(false);
  });

  it("mutant D1r, it goes on in its old term: one place of the log has two entries of one term", async () => {
    activateMutants(["D1r"]);
    const { terms, isSplit } = await again();
    expect(terms[1]).toBe(terms[0]);
    expect(isSplit).toBe(true);
  });
});

describe("a disk that does not write", () => {
  it("full: what was under way counts for nothing, and is written again when it goes", async () => {
    const quorum = await HandQuorum.of(1);
    const node = quorum.node(1);
    await node.store.sync();
    await node.store.sync();
    expect(node.host.core.isLeaderReady).toBe(true);
    propose(node);
    await node.store.fail("STORAGE_FULL");
    expect(node.host.core.role).toBe("follower");
    expect(node.host.diskTrouble?.code).toBe("STORAGE_FULL");
    expect(node.failure).toBeUndefined();
    node.pass(200);
    await node.store.sync();
    await node.store.sync();
    await node.store.sync();
    expect(node.host.diskTrouble).toBeNull();
    expect(node.host.core.isLeaderReady).toBe(true);
    expect(node.committed.filter(({ kind }) => kind === "command")).toHaveLength(1);
  });

  it("failed: nothing is said or done any more", async () => {
    const { leader } = await led();
    propose(leader);
    leader.outbox = [];
    await leader.store.fail("DISK_FAILED");
    expect(leader.failure?.code).toBe("DISK_FAILED");
    leader.pass(5_000);
    await settled();
    expect(leader.outbox).toEqual([]);
    expect(leader.host.input((core) => core.term)).toBeUndefined();
  });
});

describe("the drain", () => {
  it("may be entered again by what it calls: everything is applied once and in order", async () => {
    const quorum = await HandQuorum.of(1);
    const node = quorum.node(1);
    await node.store.sync();
    await node.store.sync();
    let more = 5;
    node.onCommitted = ({ kind }) => {
      if (kind === "command" && more-- > 0) propose(node);
    };
    propose(node);
    for (let round = 0; round < 12; round++) await node.store.sync();
    const indices = node.committed.map(({ index }) => index);
    expect(indices).toEqual(indices.map((_, at) => at));
    expect(node.committed.filter(({ kind }) => kind === "command")).toHaveLength(6);
  });

  it("a record that cannot be applied stops the host, with what came before it applied", async () => {
    const quorum = await HandQuorum.of(1);
    const node = quorum.node(1);
    await node.store.sync();
    await node.store.sync();
    propose(node);
    node.host.input((core) => core.propose({ bytes: utf8Encode("{}") }));
    await node.store.sync();
    expect(node.failure?.code).toBe("DATA_DAMAGED");
    expect(node.machine.image.cluster?.clusterId).toBe(CLUSTER);
    expect(idOf(90)).toBe(CLUSTER);
  });
});
