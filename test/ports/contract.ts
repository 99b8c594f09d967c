// A contract: cases that every adapter of a port must pass, and a count that shows that every adapter ran all of them.
import { afterAll, describe, expect, it } from "vitest";

export interface ContractCase<Subject> {
  readonly name: string;
  run(subject: Subject): Promise<void>;
}

export interface Adapter<Subject> {
  readonly name: string;
  /** Runs one case on a fresh subject. */
  readonly onFresh: (run: (subject: Subject) => Promise<void>) => Promise<void>;
}

/** Runs each case on each adapter, and fails when two adapters ran unequal numbers of cases. */
export function describeContract<Subject>(
  port: string,
  cases: readonly ContractCase<Subject>[],
  adapters: readonly Adapter<Subject>[],
): void {
  const counts = new Map<string, number>(adapters.map((adapter) => [adapter.name, 0]));
  for (const adapter of adapters) {
    describe(`${port}: ${adapter.name}`, () => {
      for (const each of cases) {
        it(each.name, async () => {
          counts.set(adapter.name, (counts.get(adapter.name) ?? 0) + 1);
          await adapter.onFresh((subject) => each.run(subject));
        });
      }
    });
  }
  afterAll(() => {
    const distinct = new Set(counts.values());
    expect(distinct.size, `cases run: ${JSON.stringify([...counts])}`).toBe(1);
  });
}
