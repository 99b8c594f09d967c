import { describe, expect, it } from "vitest";
import { present } from "../../src/base/assert.ts";
import { Alarms } from "../../src/link/alarms.ts";
import { BrokerConnection } from "../../src/link/broker-connection.ts";
import { type NodeId, UUID_BYTES, uuidFromBytes } from "../../src/model/ids.ts";
import type { ConnectionHandlers, MessageConnection } from "../../src/ports/transport.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeResponse, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
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
  const raw: MessageConnection = {
    remote: "peer:1",
    unsentBytes: 0,
    start: (given) => {
      handlers = given;
    },
    send: () => undefined,
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
  return { connection, closed, peer: present(handlers, "handlers") };
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
