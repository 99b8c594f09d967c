// A client that asks or dials again at once is told from one that takes its time.
import { expect, it } from "vitest";
import type { MessageConnection, MessageTransport } from "../../../src/ports/transport.ts";
import type { HistoryEvent } from "../../../src/checkers/history.ts";
import type { SimWorld } from "../../../src/sim/world.ts";
import { paced } from "../../../src/sim/workload/pace.ts";
import { API } from "../../../src/wire/native/apis.ts";

function watching() {
  const found: HistoryEvent[] = [];
  const world = { nowMs: 0 };
  const connection = { send: () => undefined } as unknown as MessageConnection;
  const transport: MessageTransport = {
    listen: () => Promise.reject(new Error("nobody listens")),
    connect: () => Promise.resolve({ ...connection }),
  };
  const record = (event: HistoryEvent): void => void found.push(event);
  const watched = paced(transport, { name: "c", world: world as unknown as SimWorld, record });
  return { found, world, watched };
}

const request = (api: number): Uint8Array => new Uint8Array([0x96, api, 0]);

it("finds questions without a pause, once", async () => {
  const { found, world, watched } = watching();
  const connection = await watched.connect("a");
  for (let count = 0; count < 300; count++, world.nowMs += 2) connection.send([request(API.METADATA)]);
  expect(found).toMatchObject([{ type: "verdict", invariant: 44, process: "c" }]);
});

it("finds dials without a pause", async () => {
  const { found, world, watched } = watching();
  for (let count = 0; count < 100; count++, world.nowMs += 2) await watched.connect("a");
  expect(found).toMatchObject([{ type: "verdict", invariant: 44 }]);
});

it("lets questions with pauses, and any number of records, go by", async () => {
  const { found, world, watched } = watching();
  const connection = await watched.connect("a");
  for (let count = 0; count < 300; count++, world.nowMs += 20) connection.send([request(API.METADATA)]);
  for (let count = 0; count < 5000; count++, world.nowMs += 0.1)
    connection.send([request(count % 2 === 0 ? API.PRODUCE : API.FETCH)]);
  expect(found).toEqual([]);
});
