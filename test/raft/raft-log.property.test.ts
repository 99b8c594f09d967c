import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RaftLog } from "../../src/raft/raft-log.ts";
import type { Entry, Term, WriteBatch } from "../../src/raft/types.ts";
import { RaftDisk } from "../../src/sim/raft/disk.ts";
import { command } from "./messages.ts";

type Step =
  | { readonly kind: "append"; readonly newTerm: boolean }
  | { readonly kind: "cut"; readonly share: number }
  | { readonly kind: "commit"; readonly share: number }
  | { readonly kind: "write" | "durable" | "apply" | "compact" | "fail" };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("append" as const), newTerm: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("cut" as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("commit" as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  },
  {
    weight: 9,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "write" as const,
        "durable" as const,
        "apply" as const,
        "compact" as const,
        "fail" as const,
      ),
    }),
  },
);

/** A plain array of what the log should hold, and a disk that carries out what it asks for. */
class Twin {
  readonly log = new RaftLog({ snapshot: null, log: { start: 0, startTerm: 0 as Term, entries: [] } });
  readonly disk = new RaftDisk();
  entries: Entry[] = [];
  applied: Entry[] = [];
  pending: WriteBatch[] = [];
  #term = 1;
  #id = 1;

  take(one: Step): void {
    const { log } = this;
    switch (one.kind) {
      case "append": {
        if (one.newTerm) this.#term++;
        const entry = command(this.entries.length, this.#term);
        this.entries.push(entry);
        return log.append(entry);
      }
      case "cut": {
        const end = log.commitEnd + Math.floor((log.end - log.commitEnd) * one.share);
        if (end >= log.end) return;
        this.entries.length = end;
        this.#term++;
        return log.cutSuffix(end);
      }
      case "commit":
        return log.commitTo(log.commitEnd + Math.floor((log.end - log.commitEnd) * one.share));
      case "write": {
        if (!log.hasWrite) return;
        const id = this.#id++;
        this.pending.push({ id, hardState: null, messagesAfterSync: [], ...log.takeWrite(id) });
        return;
      }
      case "durable": {
        const batch = this.pending.shift();
        if (batch === undefined) return;
        this.disk.write(batch);
        return log.durable(batch.id);
      }
      case "apply":
        this.applied.push(...log.takeCommitted(3));
        return log.applied(this.applied.length);
      case "compact":
        return log.cutPrefix(Math.max(log.start, log.appliedEnd - 1));
      case "fail":
        this.pending = [];
        return log.restartWrites();
    }
  }

  check(): void {
    const { log, disk, entries } = this;
    log.checkInvariants();
    expect(log.end).toBe(entries.length);
    for (let index = log.start; index < log.end; index++) expect(log.at(index)).toBe(entries[index]);
    for (let end = Math.max(1, log.start); end <= log.end; end++)
      expect(log.termBefore(end)).toBe(entries[end - 1]?.term);
    // What it calls durable is on the disk, and is what is in the log.
    for (let index = Math.max(log.start, disk.start); index < log.durableEnd; index++)
      expect(disk.entries[index - disk.start]).toBe(entries[index]);
    expect(this.applied).toEqual(entries.slice(0, this.applied.length));
  }
}

describe("the log against a plain array and a disk", () => {
  it("appends, cuts, late completions, failures: durable means on disk, and everything else agrees", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const twin = new Twin();
        for (const one of steps) {
          twin.take(one);
          twin.check();
        }
        // Whatever happened, once all is written the disk equals the log.
        while (twin.log.hasWrite || twin.pending.length > 0) {
          twin.take({ kind: "write" });
          twin.take({ kind: "durable" });
        }
        expect(twin.log.durableEnd).toBe(twin.entries.length);
        twin.check();
      }),
      { numRuns: 500 },
    );
  });

  it("lastPossibleMatch never skips a common prefix", () => {
    const terms = fc.array(fc.boolean(), { maxLength: 20 }).map((rises) => {
      let term = 1;
      return rises.map((rise) => (rise ? ++term : term));
    });
    const logOf = (list: readonly number[]): RaftLog =>
      new RaftLog({
        snapshot: null,
        log: { start: 0, startTerm: 0 as Term, entries: list.map((term, index) => command(index, term)) },
      });
    fc.assert(
      fc.property(terms, terms, fc.nat(20), (common, left, cut) => {
        // Two logs with a common beginning; where they differ, they differ in the term (log matching).
        const shared = common.slice(0, cut);
        const base = shared.at(-1) ?? 0;
        const mine = logOf([...shared, ...left.map((term) => base + term * 2)]);
        const theirs = logOf([...shared, ...left.map((term) => base + term * 2 + 1)]);
        const hintEnd = mine.lastPossibleMatch({ end: theirs.end, lastTerm: theirs.lastTerm });
        const hintTerm = mine.termBefore(hintEnd) ?? (0 as Term);
        const next = theirs.lastPossibleMatch({ end: hintEnd, lastTerm: hintTerm });
        expect(hintEnd).toBeGreaterThanOrEqual(shared.length);
        expect(next).toBeGreaterThanOrEqual(shared.length);
        expect(next).toBeLessThanOrEqual(hintEnd);
      }),
    );
  });
});
