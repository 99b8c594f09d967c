// What becomes of an exception in a handler.
import { describe, expect, test } from "vitest";
import { AssertionFailure } from "../../src/base/assert.ts";
import type { ClientConnection } from "../../src/broker/connection.ts";
import { Dispatcher } from "../../src/broker/dispatcher.ts";
import type { Services } from "../../src/broker/services.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { API } from "../../src/wire/native/apis.ts";
import { ResponseAssembler } from "../../src/wire/native/codec.ts";
import { batchOf } from "./support.ts";

/** A dispatcher whose quorum throws this, and a connection that keeps what is sent. */
function dispatchWith(thrown: unknown, stage: "starting" | "running" | "stopping" = "running") {
  const sent: Uint8Array[] = [];
  const defects: unknown[] = [];
  let released = 0;
  const connection = {
    clientId: "c",
    send: (messages: readonly Uint8Array[]) => void sent.push(...messages),
    release: (_header: unknown, bytes: number) => {
      released += bytes;
    },
  } as unknown as ClientConnection;
  const services = {
    get quorum() {
      throw thrown;
    },
    clock: { monoMs: () => 1 },
    metrics: { answered: () => undefined },
    logger: { error: () => undefined },
    waitingFor: () => "waiting for a quorum",
  } as unknown as Services;
  const dispatcher = new Dispatcher(services, (defect) => defects.push(defect));
  if (stage !== "starting") dispatcher.services = services;
  if (stage === "stopping") dispatcher.phase = "stopping";
  const header = { api: API.METADATA, version: 0, correlationId: 5, deadlineMs: 0 };
  dispatcher.dispatch(connection, { header, request: { topics: null, after: null, barrier: false }, bodies: [] }, 10);
  const [message] = sent;
  const assembled = message === undefined ? undefined : new ResponseAssembler({ bodyBytesMax: 1 }).push(message);
  const error = assembled?.kind === "message" ? assembled.message.header.error : undefined;
  const text = assembled?.kind === "message" ? assembled.message.header.message : undefined;
  return { error, text, defects, released, inFlight: dispatcher.inFlightCount };
}

describe("dispatcher", () => {
  test("an unexpected exception answers UNKNOWN_SERVER_ERROR for that request and gives its bytes back", () => {
    expect(dispatchWith(new TypeError("x"))).toEqual({
      error: "UNKNOWN_SERVER_ERROR",
      text: "x",
      defects: [],
      released: 10,
      inFlight: 0,
    });
  });

  test("a broken invariant is never answered: the process must stop", () => {
    const failure = new AssertionFailure("x");
    expect(dispatchWith(failure)).toMatchObject({ error: undefined, defects: [failure], released: 0, inFlight: 1 });
  });

  test("an answer beyond the limits of the protocol fails that request alone, and is logged", () => {
    const wide = {
      voters: new Array(129).fill({ replicaId: "1:x", isLearner: true, end: 0, lagMs: 0, isRefused: false }),
    };
    const logged: string[] = [];
    const sent: Uint8Array[] = [];
    const node = {
      nodeId: 1,
      metadataVersions: { min: 1, max: 2 },
      waitingFor: () => null,
      clock: { monoMs: () => 1 },
      metrics: { answered: () => undefined },
      logger: { error: (event: string) => void logged.push(event) },
      quorum: {
        isController: false,
        image: { metadataVersion: 1 },
        status: {
          ...wide,
          role: "follower",
          clusterId: null,
          leaderId: 1,
          term: 1,
          commitEnd: 1,
          appliedEnd: 1,
          reachable: [],
        },
      },
    } as unknown as Services;
    const connection = {
      clientId: "c",
      send: (messages: readonly Uint8Array[]) => void sent.push(...messages),
      release: () => undefined,
    } as unknown as ClientConnection;
    const defects: unknown[] = [];
    const dispatcher = new Dispatcher(node, (defect) => defects.push(defect));
    const header = { api: API.DESCRIBE_QUORUM, version: 0, correlationId: 5, deadlineMs: 0 };
    dispatcher.dispatch(connection, { header, request: {}, bodies: [] }, 10);
    expect(defects).toEqual([]);
    expect(logged).toEqual(["answer_not_encodable"]);
    const assembled = new ResponseAssembler({ bodyBytesMax: 1 }).push(sent[0] ?? new Uint8Array(0));
    expect(assembled).toMatchObject({ kind: "message", message: { header: { error: "UNKNOWN_SERVER_ERROR" } } });
    expect(dispatcher.inFlightCount).toBe(0);
  });

  test("a coded error is the answer", () => {
    const refusal = new OttlaError("NOT_CONTROLLER", "it is node 2");
    expect(dispatchWith(refusal)).toMatchObject({ error: "NOT_CONTROLLER", text: "it is node 2", released: 10 });
  });

  test("clients are told what a starting broker waits for, and that a stopping one stops; nothing else is asked of it", () => {
    const starting = dispatchWith(new TypeError("never met"), "starting");
    expect(starting).toMatchObject({
      error: "BROKER_NOT_AVAILABLE",
      text: "the broker is starting: waiting for a quorum",
      released: 10,
    });
    const stopping = dispatchWith(new TypeError("never met"), "stopping");
    expect(stopping).toMatchObject({ error: "BROKER_NOT_AVAILABLE", text: "the broker is stopping", released: 10 });
  });

  test("on its way out a broker takes what a client can send again without doubt, and nothing else new", () => {
    const producer = { producerId: 7, producerEpoch: 0, baseSequence: 0 };
    const [plain, numbered] = [batchOf(["a"]), batchOf(["a"], { producer })];
    const refused = "BROKER_NOT_AVAILABLE";
    expect(produceWith("draining", [numbered, numbered])).toBe("BUSY");
    expect(produceWith("draining", [numbered, plain])).toBe(refused);
    expect(produceWith("draining", [plain])).toBe(refused);
    expect(produceWith("draining", [new Uint8Array(5)])).toBe(refused);
    expect(produceWith("stopping", [numbered])).toBe(refused);
    expect(produceWith("open", [plain])).toBe("BUSY");
  });
});

/** What a produce request is answered; BUSY says that it came to its handler. */
function produceWith(phase: Dispatcher["phase"], bodies: readonly Uint8Array[]): string | undefined {
  const sent: Uint8Array[] = [];
  const connection = {
    clientId: "c",
    send: (messages: readonly Uint8Array[]) => void sent.push(...messages),
    release: () => undefined,
  } as unknown as ClientConnection;
  const services = {
    get intake() {
      throw new OttlaError("BUSY", "at the handler");
    },
    clock: { monoMs: () => 1 },
    metrics: { answered: () => undefined },
    logger: { error: () => undefined },
    waitingFor: () => null,
  } as unknown as Services;
  const dispatcher = new Dispatcher(services, () => undefined);
  dispatcher.services = services;
  dispatcher.phase = phase;
  const header = { api: API.PRODUCE, version: 0, correlationId: 5, deadlineMs: 0 };
  dispatcher.dispatch(
    connection,
    { header, request: { acks: -1, timeoutMs: 1, entries: [] }, bodies: [...bodies] },
    10,
  );
  const assembled = new ResponseAssembler({ bodyBytesMax: 1 }).push(sent[0] ?? new Uint8Array(0));
  return assembled.kind === "message" ? assembled.message.header.error : undefined;
}
