// One connection's pile of work goes on in turns: others come between, nothing is done for one that is gone, order is kept.
import { toNodeId } from "../../src/model/ids.ts";
import { describe, expect, test } from "vitest";
import { Accountant } from "../../src/broker/accountant.ts";
import { ClientConnection, type ConnectionHost } from "../../src/broker/connection.ts";
import { MetadataAnswers } from "../../src/broker/metadata-answers.ts";
import { TurnQueue } from "../../src/broker/turn-queue.ts";
import type { ConnectionHandlers, MessageConnection } from "../../src/ports/transport.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";

/** A clock that only work moves, and connections whose every request takes `requestMs`. */
function setUp(requestMs: number) {
  const deferred: (() => void)[] = [];
  const served: string[] = [];
  let nowMs = 0;
  const defer = (work: () => void) => void deferred.push(work);
  const host: ConnectionHost = {
    accountant: new Accountant({ produceBytes: 2 ** 20, unsentBytes: 2 ** 20, delayedRequests: 10 }, defer),
    inFlightBytesMax: 2 ** 20,
    unsentBytesMax: 2 ** 20,
    bodyBytesMax: 2 ** 20,
    nowMs: () => nowMs,
    turns: new TurnQueue(defer, () => nowMs),
    onRequest: (connection, message, sizeBytes) => {
      nowMs += requestMs;
      served.push(`${connection.remote}${message.header.correlationId}`);
      connection.release(message.header, sizeBytes);
    },
    onBroken: () => undefined,
    onClosed: () => undefined,
    guard: (work) => work(),
  };
  const turn = () => {
    const startMs = nowMs;
    for (const work of deferred.splice(0)) work();
    return nowMs - startMs;
  };
  return { host, served, turn, connect: (name: string) => connect(host, name) };
}

function connect(host: ConnectionHost, remote: string) {
  let handlers: ConnectionHandlers<Uint8Array> | undefined;
  const state = { isPaused: false, partialBytes: 0, unsentBytes: 0, closedWith: "" };
  const raw: MessageConnection = {
    remote,
    start: (given) => {
      handlers = given;
    },
    get partialBytes() {
      return state.partialBytes;
    },
    get unsentBytes() {
      return state.unsentBytes;
    },
    send: () => undefined,
    pause: () => {
      state.isPaused = true;
    },
    resume: () => {
      state.isPaused = false;
    },
    close: (reason) => {
      state.closedWith = reason;
    },
    destroy: () => handlers?.onClose("destroyed"),
  };
  const connection = new ClientConnection(raw, host);
  connection.clientId = remote;
  connection.start();
  const send = (from: number, count: number) => {
    for (let id = from; id < from + count; id++) {
      const header = { api: API.METADATA, version: 0, correlationId: id, deadlineMs: 0 };
      const [message] = encodeRequest(header, { topics: null, after: null, barrier: false }, []);
      if (message !== undefined) handlers?.onReceive(message);
    }
  };
  const receive = (message: Uint8Array) => handlers?.onReceive(message);
  return { state, send, receive, connection, destroy: () => raw.destroy() };
}

describe("turns", () => {
  test("a burst that arrives at once is worked on for a few ms a turn, in order, with reading paused meanwhile", () => {
    const { served, turn, connect } = setUp(1);
    const peer = connect("a");
    peer.send(0, 100);
    expect(served.length).toBeLessThanOrEqual(3);
    expect(peer.state.isPaused).toBe(true);
    let turns = 0;
    while (served.length < 100 && turns++ < 200) expect(turn()).toBeLessThanOrEqual(10);
    expect(served).toEqual(Array.from({ length: 100 }, (_, id) => `a${id}`));
    turn();
    expect(peer.state.isPaused).toBe(false);
  });

  test("connections take turns, and a light one is served at once between them", () => {
    const { served, turn, connect } = setUp(4);
    const heavy = Array.from({ length: 20 }, (_, index) => connect(`h${index}-`));
    for (const peer of heavy) peer.send(0, 5);
    served.length = 0;
    const light = connect("light");
    turn();
    expect(served.length).toBeLessThanOrEqual(2);
    light.send(0, 1);
    expect(served.at(-1)).toBe("light0");
    served.length = 0;
    for (let turns = 0; turns < 20; turns++) turn();
    // Nobody is served a second time before all others were.
    expect(new Set(served.slice(0, 18)).size).toBe(Math.min(18, served.length));
    expect(new Set(served.slice(0, 18).map((name) => name.split("-")[0])).size).toBe(18);
  });

  test("nothing more is done for a connection that is gone", () => {
    const { served, turn, host, connect } = setUp(1);
    const peer = connect("a");
    peer.send(0, 100);
    const before = served.length;
    peer.destroy();
    for (let turns = 0; turns < 5; turns++) turn();
    expect([served.length, host.accountant.requestBytes]).toEqual([before, 0]);
  });

  test("work of no measurable time is never put off", () => {
    const { served, connect } = setUp(0);
    connect("a").send(0, 1000);
    expect(served).toHaveLength(1000);
  });
});

describe("D-24: what was begun must go on", () => {
  const envelope = (): Uint8Array => {
    const entries = [{ topicId: "AAAAAAAAAAAAAAAAAAAAAQ" as never, partition: 0, leaderEpoch: -1, isResent: false }];
    const header = { api: API.PRODUCE, version: 0, correlationId: 1, deadlineMs: 0 };
    const body = new Uint8Array(2 ** 20);
    return encodeRequest(header, { acks: 1, timeoutMs: 1, entries }, [body])[0] ?? body;
  };

  test.each([
    // A body that comes at 200 KB/s, one that stops, one that comes with a byte every second, none at all.
    { name: "slow", bytesAt: (second: number) => second * 200_000, untilMs: 11_000 },
    { name: "stopped", bytesAt: (second: number) => Math.min(second, 2) * 500_000, untilMs: 11_000 },
    { name: "trickling", bytesAt: (second: number) => second, untilMs: 11_000 },
    { name: "silent", bytesAt: () => 0, untilMs: 10_000 },
  ])("an owed body that is $name is given up in time", ({ bytesAt, untilMs }) => {
    const { connect } = setUp(0);
    const peer = connect("a");
    peer.receive(envelope());
    let closedMs = 0;
    for (let second = 1; second <= 20 && closedMs === 0; second++) {
      peer.state.partialBytes = Math.min(2 ** 20, bytesAt(second));
      peer.connection.sweep(second * 1_000, false);
      if (peer.state.closedWith !== "") closedMs = second * 1_000;
    }
    expect(peer.state.closedWith).toContain("BODY_MISMATCH");
    expect(closedMs).toBe(untilMs);
  });

  test("a message that is not finished is counted, and given up after 10 s; an idle connection is not", () => {
    const { host, connect } = setUp(0);
    const [peer, idle] = [connect("a"), connect("idle")];
    peer.state.partialBytes = 100_000;
    peer.connection.sweep(1_000, false);
    idle.connection.sweep(1_000, false);
    expect(host.accountant.control.usedBytes).toBe(100_000);
    for (const at of [10_000, 11_000, 100_000]) {
      peer.connection.sweep(at, false);
      idle.connection.sweep(at, false);
      expect([at, peer.state.closedWith !== ""]).toEqual([at, at >= 11_000]);
    }
    expect(idle.state.closedWith).toBe("");
    peer.destroy();
    expect(host.accountant.control.usedBytes).toBe(0);
  });

  test("while answers are at their bound, who has not taken its share is not read, and others are", () => {
    const { host, served, connect, turn } = setUp(0);
    const [slow, good] = [connect("slow"), connect("good")];
    host.accountant.unsent.add(2 ** 20);
    slow.state.unsentBytes = 100_000;
    slow.connection.settle();
    slow.send(0, 1);
    good.send(0, 1);
    expect([served, slow.state.isPaused, good.state.isPaused]).toEqual([["good0"], true, false]);
    slow.state.unsentBytes = 0;
    host.accountant.unsent.add(-(2 ** 20));
    slow.connection.settle();
    turn();
    expect(served).toEqual(["good0", "slow0"]);
  });
});

describe("encoded metadata", () => {
  const clock = { now: 0, monoMs: () => clock.now, wallMs: () => 0 };
  const payload = () => new Uint8Array(5_000);
  const asked = (topics: readonly string[] | null, after: string | null = null, controllerId = 1) => ({
    topics,
    after,
    version: 1,
    pageBytes: 1_000_000,
    controllerId: toNodeId(controllerId),
  });

  test("is used again for the same request and image, for a second at most", () => {
    const answers = new MetadataAnswers(clock);
    const all = asked(null);
    const first = answers.get(all, 1, payload);
    expect(answers.get(all, 1, payload)).toBe(first);
    expect(answers.get(asked(["/"]), 1, payload)).not.toBe(first);
    expect(answers.get(asked(null, "null"), 1, payload)).not.toBe(first);
    expect(answers.get(asked(null, null, 2), 1, payload), "another controller").not.toBe(first);
    const second = answers.get(all, 2, payload);
    expect(second).not.toBe(first);
    clock.now = 1_000;
    const third = answers.get(all, 2, payload);
    expect(third).not.toBe(second);
    answers.clear();
    expect(answers.get(all, 2, payload)).not.toBe(third);
  });

  test("keeps few, and no short ones", () => {
    const answers = new MetadataAnswers(clock);
    const all = asked(null);
    const first = answers.get(all, 1, payload);
    for (let index = 0; index < 100; index++) answers.get(asked([`t${index}`]), 1, () => new Uint8Array(50));
    expect(answers.get(all, 1, payload)).toBe(first);
    for (let index = 0; index < 8; index++) answers.get(asked([`t${index}`]), 1, payload);
    expect(answers.get(all, 1, payload)).not.toBe(first);
  });
});
