// What other nodes send is on an account of its own: a full account of produce never keeps it from being read (D-26).
import { expect, test } from "vitest";
import { Accountant } from "../../src/broker/accountant.ts";
import { ClientConnection, type ConnectionHost } from "../../src/broker/connection.ts";
import { TurnQueue } from "../../src/broker/turn-queue.ts";
import { idOf, nodeId } from "./quorum/support.ts";
import type { ConnectionHandlers, MessageConnection } from "../../src/ports/transport.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";

const KiB = 1024;

function setUp() {
  const defer = (work: () => void): void => void setImmediate(work);
  const accountant = new Accountant({ produceBytes: 1024 * KiB, unsentBytes: 1024 * KiB, delayedRequests: 10 }, defer);
  const received: ConnectionHandlers<Uint8Array>[] = [];
  const raw: MessageConnection = {
    remote: "peer:1",
    unsentBytes: 0,
    start: (handlers) => void received.push(handlers),
    send: () => undefined,
    pause: () => undefined,
    resume: () => undefined,
    close: () => undefined,
    destroy: () => undefined,
  };
  const host: ConnectionHost = {
    accountant,
    inFlightBytesMax: 1024 * KiB,
    unsentBytesMax: 1024 * KiB,
    bodyBytesMax: 1024 * KiB,
    nowMs: () => 0,
    turns: new TurnQueue(defer, () => 0),
    onRequest: (connection, { header }, sizeBytes) => {
      if (header.api !== API.ALTER_PARTITION) connection.release(header, sizeBytes);
    },
    onBroken: (_, error, reason) => expect.unreachable(`${error}: ${reason}`),
    onClosed: () => undefined,
    guard: (work) => work(),
  };
  const connection = new ClientConnection(raw, host);
  connection.start();
  return { accountant, connection, receive: (bytes: Uint8Array) => received[0]?.onReceive(bytes) };
}

test("D-26: a node that has sent many long Raft messages is read on while clients fill the account of produce", () => {
  const { accountant, connection, receive } = setUp();
  const replica = (id: number) => `${id}:${idOf(id)}`;
  for (let correlationId = 1; correlationId <= 3; correlationId++) {
    const entries = [{ term: 1, kind: "command" as const }];
    const message = { kind: "append" as const, term: 1, start: 0, prevTerm: 0, entries, commitEnd: 0 };
    const request = { clusterId: idOf(9), from: replica(1), to: replica(2), boots: 1, message };
    const header = { api: API.RAFT, version: 0, correlationId, deadlineMs: 0 } as const;
    for (const bytes of encodeRequest(header, request, [new Uint8Array(50 * KiB)])) receive(bytes);
  }
  expect([accountant.peers.usedBytes, connection.inFlightBytes]).toEqual([0, 0]);
  accountant.produce.add(accountant.produce.capBytes);
  connection.settle();
  expect(connection.isPaused).toBe(false);
});

test("D-26: nor is one that waits for many changes of ISRs: what commits them may be behind them on the connection", () => {
  const { accountant, connection, receive } = setUp();
  const isr = [1, 2, 3].map((nodeId) => ({ nodeId, brokerEpoch: 1 }));
  const entries = Array.from({ length: 300 }, (_, partition) => ({
    topicId: idOf(5),
    partition,
    leaderEpoch: 1,
    partitionEpoch: 1,
    isr,
    wantsMove: false,
  }));
  const header = { api: API.ALTER_PARTITION, version: 0, correlationId: 1, deadlineMs: 0 } as const;
  for (const bytes of encodeRequest(header, { nodeId: nodeId(2), brokerEpoch: 1, entries }, [])) receive(bytes);
  expect(connection.inFlightBytes).toBeGreaterThan(100 * KiB);
  for (const account of [accountant.produce, accountant.control]) account.add(account.capBytes);
  connection.settle();
  expect(connection.isPaused).toBe(false);
  // Whoever says to be a node is held to what all nodes may have.
  accountant.peers.add(accountant.peers.capBytes);
  connection.settle();
  expect(connection.isPaused).toBe(true);
});
