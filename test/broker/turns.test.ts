// One connection's pile of work goes on in turns: others come between, nothing is done for one that is gone, order is kept.
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
  const state = { isPaused: false };
  const raw: MessageConnection = {
    remote,
    unsentBytes: 0,
    start: (given) => {
      handlers = given;
    },
    send: () => undefined,
    pause: () => {
      state.isPaused = true;
    },
    resume: () => {
      state.isPaused = false;
    },
    close: () => undefined,
    destroy: () => handlers?.onClose("destroyed"),
  };
  const connection = new ClientConnection(raw, host);
  connection.clientId = remote;
  connection.start({ hold: false });
  const send = (from: number, count: number) => {
    for (let id = from; id < from + count; id++) {
      const header = { api: API.METADATA, version: 0, correlationId: id, deadlineMs: 0 };
      const [message] = encodeRequest(header, { topics: null, after: null }, []);
      if (message !== undefined) handlers?.onReceive(message);
    }
  };
  return { state, send, destroy: () => raw.destroy() };
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

describe("encoded metadata", () => {
  const clock = { now: 0, monoMs: () => clock.now, wallMs: () => 0 };
  const payload = () => new Uint8Array(5_000);

  test("is used again for the same request and image, for a second at most", () => {
    const answers = new MetadataAnswers(clock);
    const all = { topics: null, after: null };
    const first = answers.get(all, 1, payload);
    expect(answers.get(all, 1, payload)).toBe(first);
    expect(answers.get({ topics: ["/"], after: null }, 1, payload)).not.toBe(first);
    expect(answers.get({ topics: null, after: "null" }, 1, payload)).not.toBe(first);
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
    const all = { topics: null, after: null };
    const first = answers.get(all, 1, payload);
    for (let index = 0; index < 100; index++)
      answers.get({ topics: [`t${index}`], after: null }, 1, () => new Uint8Array(50));
    expect(answers.get(all, 1, payload)).toBe(first);
    for (let index = 0; index < 8; index++) answers.get({ topics: [`t${index}`], after: null }, 1, payload);
    expect(answers.get(all, 1, payload)).not.toBe(first);
  });
});
