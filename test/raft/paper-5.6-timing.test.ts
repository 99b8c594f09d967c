import { describe, expect, it } from "vitest";
import { DEFAULT_SETTINGS, TICK_MS } from "../../src/raft/settings.ts";
import type { Message } from "../../src/raft/types.ts";
import { Cluster } from "./cluster.ts";

const { electionTicksMin, electionTicksMax } = DEFAULT_SETTINGS;

/** Ticks all that are up; each message arrives at the first tick that is `delayTicks` or more after it was sent. */
class Clockwork {
  readonly cluster: Cluster;
  readonly #delayTicks: number;
  readonly #onTheWay: { readonly message: Message; readonly tick: number }[] = [];
  tick = 0;

  constructor(voters: number, delayTicks: number) {
    this.cluster = new Cluster(voters);
    this.#delayTicks = delayTicks;
  }

  run(ticks: number): void {
    for (let count = 0; count < ticks; count++) this.#step();
  }

  get leader(): string | undefined {
    const leaders = this.cluster.up.filter(({ core }) => core?.role === "leader");
    return leaders.toSorted((left, right) => right.node.term - left.node.term)[0]?.id;
  }

  #step(): void {
    this.tick++;
    for (const { id } of this.cluster.up) this.cluster.tick(id);
    while (this.#onTheWay[0] !== undefined && this.#onTheWay[0].tick <= this.tick) {
      const { message } = this.#onTheWay.shift() ?? {};
      if (message !== undefined) this.cluster.nodes.get(message.to)?.core?.step(message);
    }
    for (const { id } of this.cluster.up) this.cluster.settle(id);
    for (const message of this.cluster.drop()) this.#onTheWay.push({ message, tick: this.tick + this.#delayTicks });
  }
}

describe("Raft paper 5.6: timing and availability", () => {
  it("a leader stays as long as messages take much less than an election timeout", () => {
    for (const delayTicks of [0, 1, 2, 3]) {
      const clockwork = new Clockwork(3, delayTicks);
      clockwork.run(200);
      const { leader, cluster } = clockwork;
      const term = cluster.core("1").term;
      expect(leader).toBeDefined();
      clockwork.run(2000);
      expect([clockwork.leader, cluster.core("1").term], `${delayTicks * TICK_MS} ms`).toEqual([leader, term]);
    }
  });

  it("where messages take longer than a follower waits, nobody leads for long: timeouts have to fit the network", () => {
    const clockwork = new Clockwork(3, electionTicksMax + 1);
    let led = 0;
    for (let count = 0; count < 2000; count++) {
      clockwork.run(1);
      if (clockwork.leader !== undefined) led++;
    }
    expect(led).toBeLessThan(400);
  });

  for (const voters of [3, 5]) {
    it(`D-37: ${voters} voters have a new leader within 3 s, nine times in ten within 2 s, though each message takes 25 ms`, () => {
      const clockwork = new Clockwork(voters, 1);
      const { cluster } = clockwork;
      clockwork.run(100);
      const gaps: number[] = [];
      for (let round = 0; round < 60; round++) {
        const old = clockwork.leader ?? "";
        cluster.crash(old);
        const from = clockwork.tick;
        while (clockwork.leader === undefined && clockwork.tick - from < 1000) clockwork.run(1);
        gaps.push(clockwork.tick - from);
        cluster.restart(old);
        clockwork.run(electionTicksMax);
      }
      gaps.sort((left, right) => left - right);
      expect(gaps[0]).toBeGreaterThanOrEqual(electionTicksMin - DEFAULT_SETTINGS.heartbeatTicks);
      expect((gaps[Math.floor(gaps.length * 0.9)] ?? Infinity) * TICK_MS).toBeLessThan(2000);
      expect((gaps.at(-1) ?? Infinity) * TICK_MS).toBeLessThan(3000);
    });
  }

  it("a split vote is voted on again soon: it does not cost another wait for a leader", () => {
    const { coldTicksMax } = DEFAULT_SETTINGS;
    const clockwork = new Clockwork(3, 0);
    clockwork.run(100);
    const { cluster } = clockwork;
    const old = clockwork.leader ?? "";
    cluster.crash(old);
    clockwork.run(electionTicksMin - DEFAULT_SETTINGS.heartbeatTicks * 2);
    // Both at the same moment: each asks the other beforehand, each votes for itself.
    for (const { node } of cluster.up) node.campaign();
    const from = clockwork.tick;
    while (clockwork.leader === undefined && clockwork.tick - from < 1000) clockwork.run(1);
    expect(Math.max(...cluster.up.map(({ node }) => node.term))).toBeGreaterThan(cluster.up.length);
    expect(clockwork.tick - from).toBeGreaterThan(DEFAULT_SETTINGS.coldTicksMin);
    expect(clockwork.tick - from).toBeLessThanOrEqual(coldTicksMax * 2);
  });

  describe("a leader whose disk does not end a write for an election timeout", () => {
    /** Ticks all; the disk of `slow` does nothing. */
    function run(cluster: Cluster, slow: readonly string[], ticks: number): void {
      for (let tick = 0; tick < ticks; tick++) {
        for (const { id } of cluster.up) cluster.tick(id);
        for (let round = 0; round < 10; round++) {
          for (const { id } of cluster.up) {
            while (cluster.take(id) !== null);
            if (!slow.includes(id)) cluster.sync(id);
          }
          cluster.deliver();
        }
      }
    }

    it("gives its place to a voter whose disk has more", () => {
      const cluster = new Cluster(3);
      cluster.elect("1");
      cluster.propose("1", "x");
      run(cluster, ["1:a"], electionTicksMax - 1);
      expect(cluster.core("1").role).toBe("leader");
      // Committed by the others, and here nothing comes of it.
      expect(cluster.node("1").applied).toEqual([]);
      run(cluster, ["1:a"], 3);
      expect(cluster.up.filter(({ node }) => node.role === "leader").map(({ id }) => id)).not.toContain("1:a");
      expect(cluster.up.filter(({ node }) => node.role === "leader")).toHaveLength(1);
      const next = cluster.up.find(({ node }) => node.role === "leader");
      expect(next?.applied).toEqual(["x"]);
      run(cluster, ["1:a"], electionTicksMax * 4);
      expect(next?.node.role).toBe("leader");
      run(cluster, [], 5);
      expect(cluster.node("1").applied).toEqual(["x"]);
    });

    it("keeps it where the others' disks are as slow", () => {
      const cluster = new Cluster(3);
      cluster.elect("1");
      cluster.propose("1", "x");
      run(cluster, ["1:a", "2:a", "3:a"], electionTicksMax * 3);
      expect(cluster.core("1").role).toBe("leader");
      expect(cluster.core("1").transferTarget).toBeNull();
      run(cluster, [], 5);
      expect(cluster.node("2").applied).toEqual(["x"]);
    });
  });
});
