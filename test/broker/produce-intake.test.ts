import { describe, expect, test } from "vitest";
import { Accountant } from "../../src/broker/accountant.ts";
import { ProduceIntake } from "../../src/broker/produce-intake.ts";
import type { ProduceOperation } from "../../src/broker/produce-operation.ts";
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
