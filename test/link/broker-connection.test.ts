import { afterEach, describe, expect, it } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { present } from "../../src/base/assert.ts";
import { Alarms } from "../../src/link/alarms.ts";
import { BrokerConnection } from "../../src/link/broker-connection.ts";
import { type NodeId, UUID_BYTES, uuidFromBytes } from "../../src/model/ids.ts";
import type { ConnectionHandlers, MessageConnection } from "../../src/ports/transport.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
import { VirtualTime } from "../client/world.ts";

function helloAnswer(correlationId: number): Uint8Array[] {
  const header = { api: API.HELLO, version: 0, correlationId, more: false, error: "NONE", message: null } as const;
  const answer = {
    clusterId: uuidFromBytes(new Uint8Array(UUID_BYTES)),
    nodeId: 1 as NodeId,
    brokerEpoch: 1,
    software: "fake",
    apis: SUPPORTED_VERSIONS.map((row) => ({ ...row })),
    messageBytesMax: 1_000_000,
    inFlightBytesMax: 1_000_000,
  };
  return encodeResponse(header, answer, []);
}

/** A connection whose peer is the test. */
function setUp() {
  const time = new VirtualTime();
  const alarms = new Alarms({ clock: time.clock, timers: time.timers });
  let handlers: ConnectionHandlers<Uint8Array> | undefined;
  const assembler = new RequestAssembler({ bodyBytesMax: 1_000_000 });
  const ids: number[] = [];
  const raw: MessageConnection = {
    remote: "peer:1",
    unsentBytes: 0,
    start: (given) => {
      handlers = given;
    },
    send: (messages) => {
      for (const message of messages) {
        const read = assembler.push(message);
        if (read.kind === "message") ids.push(read.message.header.correlationId);
      }
    },
    pause: () => undefined,
    resume: () => undefined,
    close: () => undefined,
    destroy: () => undefined,
  };
  const closed: string[] = [];
  const connection = new BrokerConnection(raw, {
    alarms,
    events: { onClosed: (error) => void closed.push(error.code), onDrain: () => undefined },
  });
  return { connection, closed, time, alarms, peer: present(handlers, "handlers"), sent: () => ids };
}

describe("Hello", () => {
  it("resolves with the answer", async () => {
    const { connection, peer, closed } = setUp();
    const hello = connection.hello("test", 1000);
    for (const message of helloAnswer(1)) peer.onReceive(message);
    expect((await hello).nodeId).toBe(1);
    expect(closed).toEqual([]);
  });

  it("rejects when the end of the connection comes right behind the answer", async () => {
    const { connection, peer, closed } = setUp();
    const hello = connection.hello("test", 1000);
    for (const message of helloAnswer(1)) peer.onReceive(message);
    peer.onClose("connection reset");
    await expect(hello).rejects.toMatchObject({ code: "CONNECTION_LOST" });
    expect(closed).toEqual(["CONNECTION_LOST"]);
  });
});

describe("a peer that says nothing", () => {
  const failed: { code: string; isFromBroker: boolean }[] = [];
  async function greeted() {
    const made = setUp();
    failed.length = 0;
    const hello = made.connection.hello("test", 1000);
    for (const message of helloAnswer(1)) made.peer.onReceive(message);
    await hello;
    return made;
  }
  const ask = (connection: BrokerConnection, isPatient: boolean) =>
    connection.request(
      API.DESCRIBE_QUORUM,
      { request: {}, bodies: [], timeoutMs: 100, isPatient },
      {
        onAnswer: () => undefined,
        onFailure: ({ code }, isFromBroker) => void failed.push({ code, isFromBroker }),
      },
    );

  it("is cut off when a request times out, and of what was under way nothing is known", async () => {
    const { connection, closed, time } = await greeted();
    await time.pass(1);
    ask(connection, false);
    await time.pass(98);
    expect(failed).toEqual([]);
    await time.pass(200);
    expect(failed).toEqual([{ code: "REQUEST_TIMED_OUT", isFromBroker: false }]);
    expect(closed).toEqual(["CONNECTION_LOST"]);
  });

  it("is left alone by a request that can be asked elsewhere", async () => {
    const { connection, closed, time } = await greeted();
    await time.pass(1);
    ask(connection, true);
    await time.pass(200);
    expect(failed).toEqual([{ code: "REQUEST_TIMED_OUT", isFromBroker: false }]);
    expect(closed).toEqual([]);
  });

  it("a request after the end was never sent: that is certain", async () => {
    const { connection, peer } = await greeted();
    peer.onClose("gone");
    ask(connection, true);
    expect(failed).toEqual([{ code: "CONNECTION_LOST", isFromBroker: true }]);
  });

  it("is not waited for once its requester's alarms are closed: what is under way is told, what comes later is not sent", async () => {
    const { connection, alarms, sent } = await greeted();
    ask(connection, true);
    const sentBefore = sent().length;
    alarms.close();
    expect(failed).toEqual([{ code: "CLOSED", isFromBroker: false }]);
    ask(connection, true);
    expect(failed.slice(1)).toEqual([{ code: "CLOSED", isFromBroker: true }]);
    expect(sent().length).toBe(sentBefore);
  });

  it("the versions of a connection are those that both sides speak", async () => {
    const { connection } = await greeted();
    expect(connection.versionOf(API.METADATA)).toBe(2);
    expect(connection.versionOf(API.DESCRIBE_QUORUM)).toBe(0);
    expect(setUp().connection.versionOf(API.METADATA)).toBeUndefined();
  });
});

describe("an answer that comes after its request has timed out", () => {
  afterEach(() => activateMutants([]));

  /** What the second of two requests is told when the first one's answer is late. */
  async function told(): Promise<string[]> {
    const { connection, peer, time, sent } = setUp();
    const hello = connection.hello("test", 1000);
    for (const message of helloAnswer(1)) peer.onReceive(message);
    await hello;
    const answers: string[] = [];
    const ask = (timeoutMs: number, isHeard: boolean) =>
      connection.request(
        API.INIT_PRODUCER_ID,
        { request: { name: null, producerId: -1, producerEpoch: -1 }, bodies: [], timeoutMs, isPatient: true },
        {
          onAnswer: ({ producerId }) => void (isHeard && answers.push(`id ${producerId}`)),
          onFailure: ({ code }) => void (isHeard && answers.push(code)),
        },
      );
    ask(100, false);
    await time.pass(150);
    ask(1_000, true);
    const [first = 0, second = 0] = sent().slice(1);
    for (const [correlationId, producerId] of [
      [first, 7],
      [second, 8],
    ] as const) {
      const header = { api: API.INIT_PRODUCER_ID, version: 0, correlationId, more: false, error: "NONE" } as const;
      const messages = encodeResponse({ ...header, message: null }, { producerId, producerEpoch: 0 }, []);
      for (const message of messages) peer.onReceive(message);
    }
    return answers;
  }

  it("is nobody's", async () => {
    expect(await told()).toEqual(["id 8"]);
  });

  it("M34: is the next one's where its id is given again", async () => {
    activateMutants(["M34"]);
    expect(await told()).toEqual(["id 7"]);
  });
});
