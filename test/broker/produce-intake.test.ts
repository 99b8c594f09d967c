import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { Accountant } from "../../src/broker/accountant.ts";
import { ProduceIntake } from "../../src/broker/produce-intake.ts";
import { ProduceOperation, type ProduceRequestInHand } from "../../src/broker/produce-operation.ts";
import type { Services } from "../../src/broker/services.ts";
import type { LogStore } from "../../src/storage/types.ts";

function setUp() {
  const store = { hasRoom: true, isLowOnSpace: false };
  const accountant = new Accountant({ produceBytes: 1000, unsentBytes: 1000, delayedRequests: 10 }, () => {});
  const intake = new ProduceIntake({ store: store as LogStore, accountant });
  const started: string[] = [];
  const operation = (name: string) =>
    ({
      isDone: false,
      start: () => started.push(name),
      keep: () => undefined,
      armDeadline: () => undefined,
      abandon: () => undefined,
      onDone: () => undefined,
    }) as unknown as ProduceOperation;
  return { store, intake, started, operation };
}

describe("the produce intake", () => {
  test("keeps the order of arrival while memory is full", () => {
    const { store, intake, started, operation } = setUp();
    store.hasRoom = false;
    intake.take(operation("a"));
    intake.take(operation("b"));
    expect(started).toEqual([]);
    store.hasRoom = true;
    intake.take(operation("c"));
    expect(started).toEqual([]);
    intake.drain();
    expect(started).toEqual(["a", "b", "c"]);
  });

  test("D-18: holds nothing back when the disk is full, though memory is full too: each is refused at once", () => {
    const { store, intake, started, operation } = setUp();
    store.hasRoom = false;
    intake.take(operation("waiting"));
    store.isLowOnSpace = true;
    intake.drain();
    expect(started).toEqual(["waiting"]);
    intake.take(operation("late"));
    expect(started).toEqual(["waiting", "late"]);
  });
});

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
/** What a WeakRef has given stays until then. */
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Requests whose deadlines the test brings about, one of them after the other. */
class Impatient {
  readonly answers: unknown[] = [];
  batches: WeakRef<Uint8Array>[] = [];
  expire = (): void => undefined;

  begin(bodies: number): ProduceOperation {
    const services = {
      config: {},
      deadlines: { add: (_: number, expire: () => void) => ((this.expire = expire), { cancel: () => undefined }) },
    } as unknown as Services;
    const request = {
      isDone: false,
      body: { timeoutMs: 10, entries: [] },
      takeBodies: () => Array.from({ length: bodies }, () => this.#batch()),
      waitBudgetMs: () => 10,
      respond: ({ entries }: { readonly entries: readonly { readonly error: string; readonly outcome: string }[] }) => {
        this.answers.push(entries.map(({ error, outcome }) => `${error} ${outcome}`));
        request.isDone = true;
      },
    };
    return new ProduceOperation(services, request as unknown as ProduceRequestInHand, -1);
  }

  #batch(): Uint8Array {
    const batch = new Uint8Array(1_000);
    this.batches.push(new WeakRef(batch));
    return batch;
  }
}

test("D-26: one that waits does not keep what came with its batches on the socket", () => {
  const { store, intake } = setUp();
  store.hasRoom = false;
  const batch = new Uint8Array(64 * 1024).subarray(100, 200);
  const services = { config: {}, deadlines: { add: () => ({ cancel: () => undefined }) } } as unknown as Services;
  const request = {
    isDone: false,
    body: { timeoutMs: 10, entries: [] },
    takeBodies: () => [batch],
    waitBudgetMs: () => 10,
  };
  const kept: number[] = [];
  const operation = new ProduceOperation(services, request as unknown as ProduceRequestInHand, -1);
  const keep = operation.keep.bind(operation);
  operation.keep = () => {
    const batches = keep();
    kept.push(...batches.map(({ buffer }) => buffer.byteLength));
    return batches;
  };
  intake.take(operation);
  expect(kept).toEqual([100]);
});

describe("requests that wait longer than they may while storage takes nothing", () => {
  test("D-26: are answered, and do not pile up behind one that has more time", () => {
    const { store, intake, started, operation } = setUp();
    store.hasRoom = false;
    intake.take(operation("patient"));
    const clients = new Impatient();
    for (let round = 0; round < 1_000; round++) {
      intake.take(clients.begin(1));
      clients.expire();
    }
    expect(clients.answers).toEqual(clients.answers.map(() => ["REQUEST_TIMED_OUT not appended"]));
    expect(clients.answers).toHaveLength(1_000);
    expect([intake.openCount, intake.queuedCount <= 2]).toEqual([1, true]);
    store.hasRoom = true;
    intake.drain();
    expect(started).toEqual(["patient"]);
  });

  test("D-26: nothing of their batches is kept, whoever keeps the request", async () => {
    const clients = new Impatient();
    const kept = clients.begin(1);
    const [batch] = clients.batches;
    clients.batches = [];
    await nextTurn();
    collectGarbage();
    expect(batch?.deref()).toHaveLength(1_000);
    await nextTurn();
    kept.abandon("REQUEST_TIMED_OUT");
    collectGarbage();
    expect(batch?.deref()).toBeUndefined();
    expect(kept.isDone).toBe(true);
  });

  test("are answered also when they bring nothing", () => {
    const { store, intake } = setUp();
    store.hasRoom = false;
    const clients = new Impatient();
    intake.take(clients.begin(0));
    clients.expire();
    expect(clients.answers).toEqual([[]]);
    expect([intake.openCount, intake.queuedCount]).toEqual([0, 0]);
  });
});
