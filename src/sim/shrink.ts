// Makes the scenario of a failing seed shorter: whatever can be taken away while the same invariant still breaks is taken away.
//
//   1. the run ends where it breaks
//   2. what is large goes first: the operator, metadata clients, the whole nemesis, else fault classes
//   3. fewer nodes, replicas, partitions, topics, clients
//   4. of the single acts that the nemesis did, as few as will do (delta debugging, Zeller)
import type { Violation } from "../checkers/checker.ts";
import type { Reduction } from "./reduction.ts";
import type { FaultRates, SwarmConfig } from "./swarm.ts";

/** Of a run: as much as shrinking has to know. */
export interface ShrinkRun {
  readonly violations: readonly Violation[];
  readonly failure: string | undefined;
  readonly simulatedMs: number;
  readonly acts: readonly string[];
}

export interface ShrinkParts {
  readonly run: (reduction: Reduction) => Promise<ShrinkRun>;
  /** What the seed drew. */
  readonly swarm: SwarmConfig;
  /** False once enough time has been spent. */
  readonly mayGoOn: () => boolean;
  readonly onStep?: (what: string, isAccepted: boolean) => void;
}

export interface Shrunk {
  readonly reduction: Reduction;
  /** The last run that still fails. */
  readonly last: ShrinkRun;
  readonly runs: number;
}

/** What the run failed with: an invariant, or the first line of an unexpected error without its figures. */
export function signatureOf(run: ShrinkRun): string | undefined {
  const [first] = run.violations;
  if (first !== undefined) return `invariant ${first.invariant}`;
  return run.failure?.split("\n")[0]?.replaceAll(/\d+/g, "#");
}

export async function shrink(parts: ShrinkParts): Promise<Shrunk | undefined> {
  const first = await parts.run({});
  const signature = signatureOf(first);
  return signature === undefined ? undefined : new Shrinker(parts, first, signature).run();
}

class Shrinker {
  readonly #parts: ShrinkParts;
  readonly #signature: string;
  #reduction: Reduction = {};
  #last: ShrinkRun;
  #runs = 1;

  constructor(parts: ShrinkParts, first: ShrinkRun, signature: string) {
    this.#parts = parts;
    this.#last = first;
    this.#signature = signature;
  }

  async run(): Promise<Shrunk> {
    await this.#cut();
    await this.#switchOff();
    await this.#cut();
    await this.#makeSmaller();
    await this.#cut();
    await this.#fewerActs();
    await this.#cut();
    return { reduction: this.#reduction, last: this.#last, runs: this.#runs };
  }

  async #try(what: string, change: Reduction): Promise<boolean> {
    if (!this.#parts.mayGoOn()) return false;
    const reduction = { ...this.#reduction, ...change };
    const run = await this.#parts.run(reduction);
    this.#runs++;
    const isAccepted = signatureOf(run) === this.#signature;
    this.#parts.onStep?.(what, isAccepted);
    if (isAccepted) {
      this.#reduction = reduction;
      this.#last = run;
    }
    return isAccepted;
  }

  /** To where it breaks; what breaks only after the safety phase may do so after a shorter one. */
  async #cut(): Promise<void> {
    const safetyMs = this.#reduction.safetyMs ?? this.#parts.swarm.safetyMs;
    const brokenMs = Math.ceil(this.#last.simulatedMs) + 1;
    if (brokenMs < safetyMs) {
      await this.#try(`ends at ${brokenMs} ms`, { safetyMs: brokenMs });
      return;
    }
    for (let ms = Math.floor(safetyMs / 2); ms >= 250; ms = Math.floor(ms / 2))
      if (!(await this.#try(`ends at ${ms} ms`, { safetyMs: ms }))) return;
  }

  async #switchOff(): Promise<void> {
    const { faults, metadata } = this.#parts.swarm;
    const on = (Object.keys(faults) as (keyof FaultRates)[]).filter((name) => faults[name] !== 0);
    await this.#try("no operator, no deletion of topics", { isQuiet: true });
    if (!(await this.#try("no metadata clients", { metadataClients: 0 })))
      await this.#fewer("metadataClients", metadata.clients);
    if (await this.#try("nothing is broken by the nemesis", { acts: [] })) return;
    for (const name of on) await this.#try(`no ${name}`, { off: [...(this.#reduction.off ?? []), name] });
  }

  async #makeSmaller(): Promise<void> {
    const { cluster, clients, topics, partitionsMax, replicasMax } = this.#parts.swarm;
    if (cluster.observers > 0) await this.#try("no observers", { observers: 0 });
    for (const voters of [1, 3])
      if (voters < cluster.voters && (await this.#try(`${voters} voters`, { voters }))) break;
    await this.#fewer("clients", clients.length);
    await this.#fewer("topics", topics);
    await this.#fewer("partitions", partitionsMax);
    await this.#fewer("replicas", replicasMax);
  }

  async #fewer(
    what: "metadataClients" | "clients" | "topics" | "partitions" | "replicas",
    drawn: number,
  ): Promise<void> {
    for (let count = 1; count < drawn; count++) if (await this.#try(`${what}: ${count}`, { [what]: count })) return;
  }

  /** ddmin: first without whole parts of the list, then without ever smaller ones. */
  async #fewerActs(): Promise<void> {
    if (this.#reduction.acts === undefined && !(await this.#try("only these acts", { acts: this.#last.acts }))) return;
    for (let parts = 2; ; ) {
      const acts = this.#reduction.acts ?? [];
      if (acts.length === 0 || !this.#parts.mayGoOn()) return;
      const size = Math.ceil(acts.length / parts);
      let hasShrunk = false;
      for (let from = 0; from < acts.length && !hasShrunk; from += size) {
        const left = [...acts.slice(0, from), ...acts.slice(from + size)];
        hasShrunk = await this.#try(`${left.length} of ${acts.length} acts`, { acts: left });
      }
      if (hasShrunk) parts = Math.max(2, parts - 1);
      else if (size === 1) return;
      else parts = Math.min(acts.length, parts * 2);
    }
  }
}
