// D-17: which damaged replicas are told to the controller, and which of them may be dropped.
import { afterEach, describe, expect, test } from "vitest";
import { activateMutants } from "../../src/base/mutant.ts";
import { DamageReports } from "../../src/broker/damage-reports.ts";
import type { PartitionRef } from "../../src/metadata/partition-decisions.ts";
import { History, node } from "../metadata/support.ts";

afterEach(() => activateMutants([]));

class Broker {
  readonly history = History.started([1, 2]);
  readonly damaged = new Set<number>();
  readonly reports: DamageReports;
  readonly #topicId;

  constructor(partitions = 3) {
    this.#topicId = this.history.create("a", { partitions, replicationFactor: 2 }).topicId;
    this.reports = new DamageReports(() => [...this.damaged].map((partition) => this.ref(partition)));
  }

  ref(partition: number): PartitionRef {
    return { topicId: this.#topicId, partition };
  }

  /** A heartbeat of broker 2; the controller answers when it has committed what is told. */
  beat({ isCommitted = true } = {}): readonly number[] {
    const list = this.reports.list(this.history.image);
    const told = list.damaged.flatMap(({ partitions }) => partitions);
    if (isCommitted) {
      this.history.take(this.history.wishDamage(2, "a", ...told));
      this.reports.answered(list);
    }
    return told;
  }

  mayDrop(partition: number): boolean {
    return this.reports.isKnown(this.history.image, this.ref(partition));
  }

  get isCounted(): boolean {
    return this.reports.isCounted(this.history.image, node(2));
  }
}

describe("reports of damage", () => {
  test("are told until they are committed, and may be dropped from then on", () => {
    const broker = new Broker();
    broker.damaged.add(1);
    expect([broker.isCounted, broker.mayDrop(1)]).toEqual([true, false]);
    expect(broker.beat({ isCommitted: false })).toEqual([1]);
    expect([broker.isCounted, broker.mayDrop(1)]).toEqual([true, false]);
    expect(broker.beat()).toEqual([1]);
    expect([broker.isCounted, broker.mayDrop(1), broker.mayDrop(0)]).toEqual([false, true, false]);
    expect(broker.beat(), "and are told on for as long as they last").toEqual([1]);
  });

  test("may not be dropped before the own image has the new leader epoch", () => {
    const broker = new Broker();
    broker.damaged.add(1);
    const list = broker.reports.list(broker.history.image);
    broker.reports.answered(list);
    expect(broker.mayDrop(1)).toBe(false);
    activateMutants(["D-17e"]);
    expect(broker.mayDrop(1), "the planted bug").toBe(true);
    activateMutants([]);
    broker.history.take(broker.history.wishDamage(2, "a", 1));
    expect(broker.mayDrop(1)).toBe(true);
  });

  test("an answer that was lost is not waited for: what was committed counts, however often it is told", () => {
    const broker = new Broker();
    broker.damaged.add(1);
    broker.beat({ isCommitted: false });
    broker.history.take(broker.history.wishDamage(2, "a", 1));
    broker.reports.answered(broker.reports.list(broker.history.image));
    expect(broker.mayDrop(1)).toBe(true);
  });

  test("a log that was begun anew and is damaged again is another damage: told once as whole before", () => {
    const broker = new Broker();
    broker.damaged.add(1);
    broker.beat();
    broker.reports.ended(broker.ref(1).topicId, 1);
    expect(broker.mayDrop(1)).toBe(false);
    expect(broker.beat(), "left out for once").toEqual([]);
    expect(broker.beat()).toEqual([1]);
    expect(broker.mayDrop(1)).toBe(true);
  });

  test("of more than a heartbeat takes, those first that are not committed yet", () => {
    const broker = new Broker(1_500);
    for (let partition = 0; partition < 1_500; partition++) broker.damaged.add(partition);
    expect(broker.beat()).toHaveLength(1_000);
    expect([broker.isCounted, broker.mayDrop(999), broker.mayDrop(1_000)]).toEqual([true, true, false]);
    const second = broker.beat();
    expect([second.length, second[0], second[500]]).toEqual([1_000, 1_000, 0]);
    expect([broker.isCounted, broker.mayDrop(1_499)]).toEqual([false, true]);
  });

  test("of another broker epoch are told anew", () => {
    const broker = new Broker();
    broker.damaged.add(1);
    broker.beat();
    broker.reports.reset();
    expect(broker.mayDrop(1)).toBe(false);
  });
});
