// The client processes of a workload: started, killed and started again as the next life, stopped in the end.
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Rng } from "../../base/rng.ts";
import { clientScript } from "../build.ts";
import type { Children } from "../children.ts";
import {
  acknowledgedBy,
  type ClientOrder,
  type ClientRole,
  type Counts,
  type FromClient,
  OPERATIONS_PER_LIFE,
  type TopicSpec,
} from "./order.ts";

/** For what a client has under way: its sends end within their delivery timeout. */
const STOP_MS = 60_000;

export interface FleetParts {
  readonly children: Children;
  readonly brokers: readonly string[];
  readonly prefix: readonly string[];
  /** Of the histories. */
  readonly directory: string;
  readonly rng: Rng;
  readonly topics: readonly TopicSpec[];
  readonly nextLife: () => number;
}

export interface ClientSpec {
  readonly name: string;
  readonly role: ClientRole;
}

class ClientProcess {
  readonly order: ClientOrder;
  readonly #child: ChildProcess;
  readonly ended: Promise<void>;
  counts: Counts = {};
  /** What it had done when it was last marked. */
  doneBefore = 0;
  bug: string | undefined;
  hasEnded = false;
  isKilled = false;
  /** To end; whoever ends without it has met something that it does not say. */
  #isTold = false;

  constructor(order: ClientOrder, { children, prefix, directory }: FleetParts) {
    this.order = order;
    const log = openSync(join(directory, "clients.log"), "a");
    const command = [...prefix, process.execPath, clientScript(), JSON.stringify(order)];
    this.#child = children.spawn({ command, env: {}, stdio: ["ignore", log, log, "ipc"], cwd: directory });
    closeSync(log);
    this.#child.on("message", (message: FromClient) => {
      if (message.kind === "bug") this.bug = message.message;
      else this.counts = message.counts;
    });
    this.ended = new Promise((resolve) => {
      const end = (code: number | null): void => {
        this.hasEnded = true;
        if (code !== 0 && !this.isKilled) this.bug ??= `${order.process} ended with ${code ?? "a signal"}`;
        else if (!this.#isTold && !this.isKilled) this.bug ??= `ended by itself: ${JSON.stringify(this.counts)}`;
        resolve();
      };
      this.#child.once("exit", end);
      this.#child.once("error", () => end(null));
    });
  }

  get done(): number {
    return this.counts["acknowledged"] ?? this.counts["read"] ?? this.counts["operations"] ?? 0;
  }

  async kill(): Promise<void> {
    this.isKilled = true;
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  /** False: it had to be killed. */
  async stop(): Promise<boolean> {
    let isLate = false;
    this.#isTold = true;
    if (this.#child.connected) this.#child.send({ kind: "stop" }, () => undefined);
    const limit = setTimeout(() => {
      isLate = true;
      void this.kill();
    }, STOP_MS);
    await this.ended;
    clearTimeout(limit);
    return !isLate;
  }
}

export class Fleet {
  readonly #parts: FleetParts;
  readonly #specs: readonly ClientSpec[];
  /** The present life of each. */
  readonly #present = new Map<string, ClientProcess>();
  readonly #all: ClientProcess[] = [];
  /** When they were last marked. */
  #countsBefore: Counts = {};

  constructor(parts: FleetParts, specs: readonly ClientSpec[]) {
    this.#parts = parts;
    this.#specs = specs;
    for (const spec of specs) this.#start(spec, 0);
  }

  get killed(): number {
    return this.#all.filter(({ isKilled }) => isKilled).length;
  }

  /** Over all lives. */
  get counts(): Counts {
    const sums: Record<string, number> = {};
    for (const { counts } of this.#all)
      for (const [what, count] of Object.entries(counts)) sums[what] = (sums[what] ?? 0) + count;
    return sums;
  }

  /** Clients that met a bug, or ended by themselves. */
  get bugs(): readonly string[] {
    return this.#all.flatMap(({ bug, order }) => (bug === undefined ? [] : [`${order.process}: ${bug}`]));
  }

  /** Every client has done something, since its start or since it was marked. */
  get isGoing(): boolean {
    return this.idle.length === 0;
  }

  /** Those that have not. */
  get idle(): readonly string[] {
    return [...this.#present.values()]
      .filter(({ done, doneBefore }) => done <= doneBefore)
      .map(({ order }) => order.process);
  }

  /** Partitions that have acknowledged nothing since then, though clients that ask for that send to all of them. */
  get silent(): readonly string[] {
    if (!this.#specs.some(({ role }) => role.kind === "load")) return [];
    const now = this.counts;
    const grew = (what: string): boolean => (now[what] ?? 0) > (this.#countsBefore[what] ?? 0);
    return this.#parts.topics.flatMap(({ name, partitions }) =>
      Array.from({ length: partitions }, (_, index) => index)
        .filter((index) => !grew(acknowledgedBy(name, index)))
        .map((index) => `${name}-${index}`),
    );
  }

  /** From now on what each does counts anew. */
  mark(): void {
    for (const client of this.#present.values()) client.doneBefore = client.done;
    this.#countsBefore = this.counts;
  }

  #start(spec: ClientSpec, life: number): void {
    const { brokers, directory, rng, topics, nextLife } = this.#parts;
    const process = life === 0 ? spec.name : `${spec.name}/${life}`;
    const client = new ClientProcess(
      {
        ...{ process, name: spec.name, life, brokers, topics, role: spec.role },
        historyFile: join(directory, `${process.replace("/", "-")}.jsonl`),
        firstOperation: nextLife() * OPERATIONS_PER_LIFE,
        seed: rng.u32(),
      },
      this.#parts,
    );
    this.#present.set(spec.name, client);
    this.#all.push(client);
  }

  /** kill -9 of one that sends, and its next life; undefined: none sends. */
  async killOne(rng: Rng): Promise<string | undefined> {
    const senders = this.#specs.filter(({ role }) => role.kind === "load");
    if (senders.length === 0) return undefined;
    const spec = rng.pick(senders);
    const client = this.#present.get(spec.name);
    await client?.kill();
    this.#start(spec, (client?.order.life ?? -1) + 1);
    return spec.name;
  }

  /** Resolves when all that they had under way has ended; names those that had to be killed. */
  async stop(): Promise<readonly string[]> {
    const late: string[] = [];
    await Promise.all(
      [...this.#present.values()].map(async (client) => {
        if (!(await client.stop())) late.push(client.order.process);
      }),
    );
    return late;
  }
}
