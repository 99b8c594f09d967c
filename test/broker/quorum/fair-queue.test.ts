// Turns and room of the changes that clients ask for: order, shares, and who is put off.
import { describe, expect, it } from "vitest";
import { FairQueue } from "../../../src/broker/quorum/fair-queue.ts";

function drained(queue: FairQueue<string>): string[] {
  const items: string[] = [];
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item);
  return items;
}

describe("turns", () => {
  it("go round the sources, and each source's own keep their order", () => {
    const queue = new FairQueue<string>(100);
    for (const item of ["a1", "a2", "a3", "b1", "c1", "b2"]) queue.push(item.charAt(0), item);
    expect(queue.length).toBe(6);
    expect(drained(queue)).toEqual(["a1", "b1", "c1", "a2", "b2", "a3"]);
    expect(queue.length).toBe(0);
  });

  it("a source that comes later waits for one turn of each other, however much they have", () => {
    const queue = new FairQueue<string>(100);
    for (let at = 0; at < 10; at++) for (const source of ["a", "b"]) queue.push(source, `${source}${at}`);
    expect(queue.shift()).toBe("a0");
    queue.push("late", "late0");
    expect([queue.shift(), queue.shift(), queue.shift()]).toEqual(["b0", "a1", "late0"]);
    queue.push("late", "late1");
    expect([queue.shift(), queue.shift(), queue.shift()]).toEqual(["b1", "a2", "late1"]);
  });
});

describe("room", () => {
  it("a source has an eighth of it, and at least one place", () => {
    const queue = new FairQueue<string>(80);
    for (let at = 0; at < 10; at++) expect(queue.push("a", `${at}`)).toEqual({ kind: "waits" });
    expect(queue.push("a", "10")).toEqual({ kind: "refused" });
    expect(queue.push("b", "0")).toEqual({ kind: "waits" });
    queue.shift();
    expect(queue.push("a", "10")).toEqual({ kind: "waits" });
    const least = new FairQueue<string>(2);
    expect([least.push("a", "1"), least.push("a", "2"), least.push("b", "3")].map(({ kind }) => kind)).toEqual([
      "waits",
      "refused",
      "waits",
    ]);
  });

  it("when there is none, the youngest of whoever has most makes way; nobody with as many is put off", () => {
    const queue = new FairQueue<string>(16);
    for (const source of ["a", "b", "c", "d", "e", "f", "g"])
      for (const at of [1, 2]) expect(queue.push(source, `${source}${at}`)).toEqual({ kind: "waits" });
    for (const source of ["h", "i"]) queue.push(source, `${source}1`);
    expect(queue.length).toBe(16);
    expect(queue.push("late", "late1")).toEqual({ kind: "put off", item: "a2" });
    expect(queue.push("late", "late2")).toEqual({ kind: "refused" });
    for (const source of ["j", "k", "l", "m", "n", "o"])
      expect(queue.push(source, `${source}1`)).toMatchObject({ kind: "put off" });
    expect(queue.push("p", "p1")).toEqual({ kind: "refused" });
    expect(queue.length).toBe(16);
    expect(drained(queue)).toEqual(
      ["a", "b", "c", "d", "e", "f", "g", "h", "i", "late", "j", "k", "l", "m", "n", "o"].map((source) => `${source}1`),
    );
  });
});
