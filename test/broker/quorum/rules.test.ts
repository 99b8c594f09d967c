// The pure rules of the quorum's host: what an empty disk becomes, what a disk says, what goes into the log and over the wire.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { utf8Encode } from "../../../src/base/bytes.ts";
import { decideFounding, undecidedBecause, votersText } from "../../../src/broker/quorum/bootstrap.ts";
import {
  bytesOfEntry,
  clusterOf,
  decodeConfiguration,
  encodeConfiguration,
  entryOf,
  isReplicaId,
  owned,
} from "../../../src/broker/quorum/codec.ts";
import { addressesIn, lookAtDisk } from "../../../src/broker/quorum/formation.ts";
import { troubleOf } from "../../../src/broker/quorum/status.ts";
import { messageOf, wireMessageOf } from "../../../src/broker/quorum/raft-wire.ts";
import { encodeCommand } from "../../../src/metadata/codec.ts";
import type { NodeId } from "../../../src/model/ids.ts";
import type { Entry, Message, ReplicaId, Term } from "../../../src/raft/types.ts";
import type { RestoredRaft } from "../../../src/storage/raft-types.ts";
import type { VoterHelloResponse } from "../../../src/wire/native/quorum-apis.ts";
import { idOf, nodeId } from "./support.ts";

const CLUSTER = idOf(77);
const replica = (id: number): ReplicaId => `${id}:${idOf(id)}` as ReplicaId;
const VOTERS = [1, 2, 3].map((id) => ({ nodeId: nodeId(id), address: `n${id}:7` }));
const VERSIONS = { min: 1, max: 2 };

function answer(id: number, parts: Partial<VoterHelloResponse> = {}): [NodeId, VoterHelloResponse] {
  const base = { nodeId: nodeId(id), directoryId: idOf(id), voters: votersText(VOTERS), clusterId: null };
  const none = { founding: false, configuration: null, boots: 0, term: 0, end: 0, commitEnd: 0 };
  return [nodeId(id), { ...base, ...none, state: "empty", ...parts }];
}

const formed = (parts: Partial<VoterHelloResponse> = {}): Partial<VoterHelloResponse> => ({
  state: "formed",
  clusterId: CLUSTER,
  configuration: { voters: [replica(1), replica(2), replica(3)], learners: [] },
  ...parts,
});

describe("what an empty disk becomes", () => {
  const self = (id: number, voters = VOTERS) => ({ nodeId: nodeId(id), replica: replica(id), voters });
  const decide = (id: number, ...answers: [NodeId, VoterHelloResponse][]) => decideFounding(self(id), new Map(answers));

  it("a founder: the lowest, once all others are empty and have the same list", () => {
    const voters = [replica(1), replica(2), replica(3)];
    expect(decide(1, answer(2), answer(3))).toEqual({ kind: "found", configuration: { voters, learners: [] } });
    expect(decide(2, answer(1), answer(3))).toBeUndefined();
    expect(decide(1, answer(2))).toBeUndefined();
    expect(decide(1, answer(2), answer(3, { state: "starting" }))).toBeUndefined();
    expect(decide(1, answer(2), answer(3, { voters: "1@n1:7" }))).toBeUndefined();
  });

  it("a founding voter: when the founders name this very disk and nothing was changed since", () => {
    const adopt = { kind: "adopt", clusterId: CLUSTER };
    expect(decide(2, answer(1, formed({ founding: true })))).toMatchObject(adopt);
    // Whoever says otherwise does not know the founders' word.
    expect(decide(2, answer(3, formed()), answer(1, formed({ founding: true })))).toMatchObject(adopt);
    const others = { voters: [replica(1), `2:${idOf(99)}`, replica(3)], learners: [] };
    expect(decide(2, answer(1, formed({ founding: true, configuration: others })))).toMatchObject({ kind: "observe" });
  });

  it("an observer: when there is a cluster that does not name it so", () => {
    expect(decide(2, answer(1, formed()))).toEqual({ kind: "observe", clusterId: CLUSTER });
    expect(decide(1, answer(2), answer(3, formed()))).toEqual({ kind: "observe", clusterId: CLUSTER });
    expect(decide(4, answer(1), answer(2, formed()))).toEqual({ kind: "observe", clusterId: CLUSTER });
    // One without a log of its own cannot tell.
    expect(decide(2, answer(1, formed({ configuration: null })))).toBeUndefined();
  });

  it("alone it asks nobody", () => {
    const alone = { kind: "found", configuration: { voters: [replica(1)], learners: [] } };
    expect(decideFounding(self(1, []), new Map())).toEqual(alone);
    expect(decideFounding(self(1, VOTERS.slice(0, 1)), new Map())).toEqual(alone);
    expect(decideFounding(self(2, VOTERS.slice(0, 1)), new Map())).toBeUndefined();
  });

  it("says what it waits for", () => {
    expect(undecidedBecause(self(1), new Map([answer(3)]))).toBe(
      "waiting for a quorum: 2 of 3 voters reachable; not node 2",
    );
  });
});

it("a node that votes with two disks is there once: two nodes of three are no quorum of four votes", () => {
  const nothing = { failure: undefined, forming: null, refusedBy: [], diskTrouble: null, strangers: [] };
  const voters = [1, 2, 3, 3].map((id) => nodeId(id));
  const told = troubleOf({ ...nothing, hasLeader: false, voters, isReachable: (id) => id !== 2 });
  expect(told).toBe("waiting for a quorum: 2 of 4 voters reachable");
});

describe("what a disk says", () => {
  const entry = (index: number, parts: Partial<RestoredRaft["log"]["entries"][number]> = {}) => ({
    index,
    term: 1,
    kind: "configuration" as const,
    bytes: encodeConfiguration({ voters: [replica(1)], learners: [] }, CLUSTER),
    ...parts,
  });
  const disk = (parts: Partial<RestoredRaft> = {}): { restored: RestoredRaft } => ({
    restored: {
      hardState: { term: 0, votedFor: null },
      snapshot: null,
      log: { start: 0, startTerm: 0, entries: [] },
      ...parts,
    },
  });
  const log = { start: 0, startTerm: 0, entries: [entry(0)] };
  const owner = (clusterId: typeof CLUSTER | null, wanted?: typeof CLUSTER) => ({
    identity: { clusterId },
    wanted,
    versions: VERSIONS,
  });

  it("nothing: it is empty, unless the superblock knows a cluster: then the log is lost", () => {
    expect(lookAtDisk(disk(), owner(null)).kind).toBe("empty");
    expect(() => lookAtDisk(disk(), owner(CLUSTER))).toThrow("is gone from this data directory");
  });

  it("a mark: it observed", () => {
    const marked = disk({ hardState: { term: 0, votedFor: replica(4) } });
    expect(lookAtDisk(marked, owner(CLUSTER))).toMatchObject({ kind: "observer", clusterId: CLUSTER });
    expect(lookAtDisk(marked, owner(null)).kind).toBe("empty");
  });

  it("a log: whose it is stands in it, and it must be the one of the superblock and of the configuration", () => {
    expect(lookAtDisk(disk({ log }), owner(null))).toMatchObject({ kind: "log", clusterId: CLUSTER });
    expect(() => lookAtDisk(disk({ log }), owner(idOf(5)))).toThrow(CLUSTER);
    expect(() => lookAtDisk(disk({ log }), owner(CLUSTER, idOf(5)))).toThrow(CLUSTER);
    expect(clusterOf(disk({ log }).restored)).toBe(CLUSTER);
  });

  it("where brokers registered, in whatever part of the log; what cannot be read is passed over", () => {
    const register = (id: number, address: string): Uint8Array =>
      encodeCommand(
        [
          {
            type: "register-broker",
            version: 1,
            nodeId: nodeId(id),
            directoryId: idOf(id),
            incarnationId: idOf(id),
            restart: "first",
            address,
            metadataVersions: VERSIONS,
            timestampMs: 0,
          },
        ],
        2,
      );
    const command = (index: number, bytes: Uint8Array): Entry => ({ kind: "command", index, term: 1 as Term, bytes });
    const entries = [
      command(0, register(1, "a:1")),
      command(1, register(2, "b:1")),
      command(2, register(1, "a:2")),
      command(3, utf8Encode('{"register-broker"')),
    ];
    expect(addressesIn(entries, VERSIONS)).toEqual([
      { nodeId: 1, address: "a:2" },
      { nodeId: 2, address: "b:1" },
    ]);
  });
});

describe("configurations as bytes", () => {
  it("come back with their cluster", () => {
    const configuration = { voters: [replica(1), replica(2)], learners: [replica(3)] };
    expect(decodeConfiguration(encodeConfiguration(configuration, CLUSTER), "here")).toEqual({
      ...configuration,
      clusterId: CLUSTER,
    });
  });

  it("anything else is refused by name", () => {
    for (const text of [
      "",
      "{",
      "null",
      "{}",
      '{"version":1}',
      '{"version":1,"clusterId":"x","voters":[],"learners":[]}',
    ])
      expect(() => decodeConfiguration(utf8Encode(text), "entry 7"), text).toThrow("entry 7");
    expect(() => decodeConfiguration(utf8Encode('{"version":2}'), "entry 7")).toThrow("version 2");
    expect(isReplicaId("1:short")).toBe(false);
    expect(isReplicaId(replica(1))).toBe(true);
  });

  it("D-26: a small view of a large store is copied before it is kept", () => {
    const store = new Uint8Array(1000).fill(7);
    const kept = owned(store.subarray(10, 20));
    expect(kept.buffer.byteLength).toBe(10);
    const whole = store.subarray(0, 900);
    expect(owned(whole)).toBe(whole);
  });
});

describe("Raft messages over the wire", () => {
  const term = fc.nat(50).map((value) => value as Term);
  const end = fc.nat(1000);
  const replicas = fc.constantFrom(replica(1), replica(2), replica(3));
  const configuration = fc.record({
    voters: fc.uniqueArray(replicas, { maxLength: 3 }),
    learners: fc.uniqueArray(replicas, { maxLength: 2 }),
  });
  const bytes = fc.uint8Array({ maxLength: 40 });
  const envelope = { from: fc.constant(replica(1)), to: fc.constant(replica(2)) };
  const body = fc.oneof(
    fc.record({ kind: fc.constant("command" as const), bytes }),
    fc.record({ kind: fc.constant("leaderStart" as const) }),
    fc.record({ kind: fc.constant("configuration" as const), configuration }),
  );
  const append = fc
    .record({ ...envelope, start: end, commitEnd: end, bodies: fc.array(fc.tuple(body, fc.nat(3)), { maxLength: 8 }) })
    .map(({ bodies, start, ...rest }): Message => {
      let last = 1;
      const entries = bodies.map(([content, rise], at): Entry => {
        last += rise;
        return { ...content, index: start + at, term: last as Term };
      });
      return { kind: "append", ...rest, start, prevTerm: 1 as Term, entries, term: last as Term };
    });
  const message: fc.Arbitrary<Message> = fc.oneof(
    append,
    fc.record({
      ...envelope,
      kind: fc.constant("voteRequest" as const),
      term,
      isPreVote: fc.boolean(),
      isTransfer: fc.boolean(),
      end,
      lastTerm: term,
    }),
    fc.record({
      ...envelope,
      kind: fc.constant("voteResponse" as const),
      term,
      isPreVote: fc.boolean(),
      isGranted: fc.boolean(),
    }),
    fc.record({ ...envelope, kind: fc.constant("appendMatched" as const), term, end }),
    fc.record({
      ...envelope,
      kind: fc.constant("appendRefused" as const),
      term,
      start: end,
      hintEnd: end,
      hintTerm: term,
    }),
    fc.record({ ...envelope, kind: fc.constant("heartbeat" as const), term, commitEnd: end, round: end }),
    fc.record({ ...envelope, kind: fc.constant("heartbeatResponse" as const), term, round: end }),
    fc.record({ ...envelope, kind: fc.constant("snapshotResponse" as const), term, snapshotEnd: end, position: end }),
    fc.record({ ...envelope, kind: fc.constant("timeoutNow" as const), term }),
    fc
      .record({
        ...envelope,
        term,
        position: end,
        bytes,
        configuration,
        lastTerm: term,
        of: fc.integer({ min: 1, max: 99 }),
      })
      .map(
        ({ of, lastTerm, configuration: members, bytes: piece, ...rest }): Message => ({
          kind: "snapshotChunk",
          ...rest,
          snapshot: { end: of, lastTerm, sizeBytes: of, configuration: members },
          bytes: piece,
          sizeBytes: piece.length,
        }),
      ),
  );

  it("come back as they were", () => {
    fc.assert(
      fc.property(message, (sent) => {
        const { request, bodies } = wireMessageOf(sent, { clusterId: CLUSTER, boots: 3 });
        expect(request).toMatchObject({ clusterId: CLUSTER, boots: 3, from: sent.from, to: sent.to });
        expect(messageOf(request, bodies)).toEqual(sent);
      }),
    );
  });

  it("entries come back as they were from the disk", () => {
    fc.assert(
      fc.property(append, (sent) => {
        if (sent.kind !== "append") return;
        for (const entry of sent.entries) {
          const { index, term: entryTerm, kind } = entry;
          expect(entryOf({ index, term: entryTerm, kind, bytes: bytesOfEntry(entry, CLUSTER) })).toEqual(entry);
        }
      }),
    );
  });

  it("what does not hold together is no message", () => {
    const base = { clusterId: CLUSTER, from: replica(1), to: replica(2), boots: 1 };
    const falling = [
      { term: 5, kind: "leaderStart" as const },
      { term: 4, kind: "leaderStart" as const },
    ];
    const asked = { kind: "append" as const, term: 6, start: 3, prevTerm: 2, entries: falling, commitEnd: 1 };
    expect(messageOf({ ...base, message: asked }, [new Uint8Array(0), new Uint8Array(0)])).toBeUndefined();
    const future = { ...asked, term: 4, entries: falling.slice(0, 1) };
    expect(messageOf({ ...base, message: future }, [new Uint8Array(0)])).toBeUndefined();
    const broken = { ...asked, entries: [{ term: 5, kind: "configuration" as const }] };
    expect(messageOf({ ...base, message: broken }, [utf8Encode("{}")])).toBeUndefined();
    expect(messageOf({ ...base, from: "nobody", message: { kind: "timeoutNow", term: 1 } }, [])).toBeUndefined();
  });
});
