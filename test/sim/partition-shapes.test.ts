import { describe, expect, it } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { type Direction, drawPartition, type Machines, SHAPES, type Shape } from "../../src/sim/partition-shapes.ts";

const CLIENTS = ["client-1", "client-2"];

function machines(count: number): Machines {
  const nodes = Array.from({ length: count }, (_, index) => `node-${index + 1}`);
  return { nodes, clients: CLIENTS, controller: nodes[1] };
}

function draws(shape: Shape, of: Machines): (readonly Direction[])[] {
  return Array.from({ length: 200 }, (_, seed) => drawPartition(createRng(seed), shape, of));
}

function has(cut: readonly Direction[], from: string, to: string): boolean {
  return cut.some((direction) => direction[0] === from && direction[1] === to);
}

function isSymmetric(cut: readonly Direction[]): boolean {
  return cut.every(([from, to]) => has(cut, to, from));
}

function seenBy(node: string, cut: readonly Direction[], { nodes }: Machines): string[] {
  return nodes.filter((other) => other === node || (!has(cut, node, other) && !has(cut, other, node)));
}

describe("N4: shapes of partitions", () => {
  it.each(SHAPES)("%s cuts something, never a machine from itself, no direction twice", (shape) => {
    for (const count of [3, 5])
      for (const cut of draws(shape, machines(count))) {
        expect(cut.every(([from, to]) => from !== to)).toBe(true);
        expect(new Set(cut.map(String)).size).toBe(cut.length);
        if (shape !== "halves") expect(cut.length).toBeGreaterThan(0);
      }
  });

  it.each(["isolate", "halves", "ring", "bridge", "pair", "controller only", "clients only"] as const)(
    "%s is now and then cut in one direction only",
    (shape) => {
      const all = draws(shape, machines(5)).filter(({ length }) => length > 0);
      const oneWay = all.filter((cut) => !isSymmetric(cut));
      expect(oneWay.length).toBeGreaterThan(20);
      expect(oneWay.length).toBeLessThan(120);
      for (const cut of oneWay) expect(cut.every(([from, to]) => !has(cut, to, from))).toBe(true);
    },
  );

  it("one way: one node hears nobody, or nobody hears it", () => {
    for (const cut of draws("one way", machines(3))) {
      const senders = new Set(cut.map(([from]) => from));
      const receivers = new Set(cut.map(([, to]) => to));
      expect(Math.min(senders.size, receivers.size)).toBe(1);
      expect(isSymmetric(cut)).toBe(false);
    }
  });

  it("ring: each of five sees a majority, no two the same one", () => {
    const of = machines(5);
    for (const cut of draws("ring", of).filter(isSymmetric)) {
      const views = of.nodes.map((node) => seenBy(node, cut, of));
      expect(views.map(({ length }) => length)).toEqual([3, 3, 3, 3, 3]);
      expect(new Set(views.map(String)).size).toBe(5);
    }
  });

  it("ring of three: a chain", () => {
    const of = machines(3);
    for (const cut of draws("ring", of).filter(isSymmetric)) {
      const lengths = of.nodes.map((node) => seenBy(node, cut, of).length);
      expect(lengths.sort((left, right) => left - right)).toEqual([2, 2, 3]);
    }
  });

  it("bridge: one sees all, the others their side and it", () => {
    const of = machines(5);
    for (const cut of draws("bridge", of).filter(isSymmetric)) {
      const views = of.nodes.map((node) => seenBy(node, cut, of));
      expect(views.map(({ length }) => length).sort((left, right) => left - right)).toEqual([3, 3, 3, 3, 5]);
    }
  });

  it("controller only: every cut direction is one of the controller's", () => {
    for (const cut of draws("controller only", machines(3)))
      expect(cut.every((direction) => direction.includes("node-2"))).toBe(true);
  });

  it("clients only: every cut direction is between a client and a node", () => {
    for (const cut of draws("clients only", machines(3)))
      expect(cut.every((direction) => CLIENTS.filter((name) => direction.includes(name)).length === 1)).toBe(true);
  });
});
