// One seed: a whole cluster with clients in one process, broken for a while, then healed, then read whole.
//
//   safety     all faults of the seed; checkers look at every event
//   liveness   everything is mended: every producer must be acknowledged again within a bound
//   end        producers end; every partition is read whole; the broker stops in order, starts, and all is read again
import type { BrokerConfig } from "../model/config.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { Codecs } from "../ports/codecs.ts";
import { CheckerSet } from "./checkers/all.ts";
import type { Violation } from "./checkers/checker.ts";
import { SimDisk } from "./disk.ts";
import type { DiskImage } from "./disk-image.ts";
import type { HistoryEvent } from "./history.ts";
import { MARK } from "./marks.ts";
import { Nemesis } from "./nemesis.ts";
import { SimNetwork } from "./network.ts";
import { SimNode } from "./node.ts";
import { storageConfigOf } from "../broker/start-up.ts";
import { type PlatterEnd, recoverCopy } from "./platter.ts";
import { describeSwarm, drawSwarm, type SwarmConfig } from "./swarm.ts";
import { SimClient } from "./workload/client.ts";
import { scanTopic } from "./workload/scanner.ts";
import { TopicBoard } from "./workload/topics.ts";
import { TopicKeeper } from "./workload/topic-keeper.ts";
import { SimWorld, type TraceEvent, type WorldHost } from "./world.ts";

export interface SeedOptions {
  readonly host: WorldHost;
  readonly codecs: Codecs;
  /** Every key with its default. */
  readonly baseConfig: BrokerConfig;
  readonly onTrace?: (event: TraceEvent) => void;
  readonly adjust?: (swarm: SwarmConfig) => SwarmConfig;
  /** Fails on purpose: shows that the alarm works. */
  readonly isCanary?: boolean;
}

export interface SeedResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** A defect that is no invariant of the history: an assertion, an unexpected error. */
  readonly failure: string | undefined;
  /** Why the seed proves too little to be counted; undefined when it counts. */
  readonly notCounted: string | undefined;
  readonly hash: string;
  readonly checkpoints: readonly string[];
  readonly events: number;
  readonly simulatedMs: number;
  readonly batches: number;
  readonly reads: number;
  readonly starts: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly marks: ReadonlyMap<string, number>;
  readonly swarm: string;
}

const LIVENESS_WITHIN_MS = 60_000;
const END_WITHIN_MS = 120_000;
const SYNCED_WITHIN_MS = 3000;
const ACKS_AFTER_HEAL = 5;
const BATCHES_TO_COUNT = 300;
const ACKS_TO_COUNT = 100;

export async function runSeed(seed: number, options: SeedOptions): Promise<SeedResult> {
  return new SeedRun(seed, options).run();
}

class SeedRun {
  readonly #options: SeedOptions;
  readonly #world: SimWorld;
  readonly #swarm: SwarmConfig;
  readonly #network: SimNetwork;
  readonly #node: SimNode;
  readonly #nemesis: Nemesis;
  readonly #checkers = new CheckerSet();
  readonly #board = new TopicBoard();
  readonly #clients: SimClient[];
  readonly #keeper: TopicKeeper;
  readonly #keeperClient: SimClient;
  #operations = 0;
  #reads = 0;
  #owesProbe = false;
  #probes = 0;
  #hasFinished = false;

  constructor(seed: number, options: SeedOptions) {
    this.#options = options;
    const { host, onTrace } = options;
    this.#world = new SimWorld({ seed, host, ...(onTrace === undefined ? {} : { onTrace }) });
    const drawn = drawSwarm(this.#world.fork("swarm"), options.baseConfig);
    this.#swarm = options.adjust?.(drawn) ?? drawn;
    this.#network = new SimNetwork(this.#world, { link: this.#swarm.link });
    const record = (event: HistoryEvent): void => this.#record(event);
    const name = "node-1";
    const config = { ...this.#swarm.broker, "node.id": 1, "data.dir": "data", listeners: `ws://${name}:7070` };
    const parts = { world: this.#world, network: this.#network, codecs: options.codecs, record };
    const disk = new SimDisk(this.#world, name, this.#swarm.disk);
    this.#node = new SimNode(name, { ...parts, disk, onDown: (node) => this.#nemesis.supervise(node) }, config);
    const onPowerLoss = (): void => {
      this.#owesProbe = true;
    };
    this.#nemesis = new Nemesis(
      { world: this.#world, network: this.#network, nodes: [this.#node], onPowerLoss },
      this.#swarm,
    );
    const nextOperation = (): number => this.#operations++;
    const clientParts = { ...parts, board: this.#board, nextOperation, brokers: [this.#node.address] };
    this.#clients = this.#swarm.clients.map((plan, index) => new SimClient(`client-${index + 1}`, clientParts, plan));
    const [firstPlan] = this.#swarm.clients;
    if (firstPlan === undefined) throw new RangeError("a run needs a client");
    this.#keeperClient = new SimClient("keeper", clientParts, firstPlan);
    const wait = (delayMs: number): Promise<void> => this.#keeperClient.wait(delayMs);
    this.#keeper = new TopicKeeper({ world: this.#world, board: this.#board, record, wait }, this.#swarm);
  }

  async run(): Promise<SeedResult> {
    let failure: string | undefined;
    try {
      await this.#phases();
      this.#hasFinished = true;
    } catch (thrown) {
      failure = this.#checkers.violations.length > 0 ? undefined : describeFailure(thrown);
    }
    if (this.#checkers.excusedLosses > 0) this.#world.sometimes(MARK.EXCUSED_LOSS);
    const { hash, nowMs, faults, marks, seed } = this.#world;
    const batches = this.#clients.reduce((sum, client) => sum + client.batches, 0);
    return {
      seed,
      violations: this.#checkers.violations,
      failure,
      notCounted: this.#whyNotCounted(batches),
      hash: hash.value,
      checkpoints: hash.checkpoints,
      events: hash.events,
      simulatedMs: nowMs,
      batches,
      reads: this.#reads,
      starts: this.#node.starts,
      faults,
      marks,
      swarm: describeSwarm(this.#swarm),
    };
  }

  async #phases(): Promise<void> {
    this.#node.start();
    await this.#settle(
      this.#keeperClient.connect().then((client) => this.#keeper.createAll(client)),
      "the topics were not created",
    );
    const keeper = this.#keeperClient.connect().then((client) => this.#keeper.run(client));
    const clients = this.#clients.map((client) => client.run());
    for (const running of [keeper, ...clients]) running.catch((thrown: unknown) => this.#world.fail(asError(thrown)));
    this.#nemesis.start();
    await this.#runUntil(() => false, this.#world.nowMs + this.#swarm.safetyMs);
    this.#world.note("", "phase", "liveness");
    this.#nemesis.heal();
    if (this.#options.isCanary === true) throw new Error("canary: this run fails on purpose");
    await this.#mustProgress();
    this.#world.note("", "phase", "end");
    this.#keeper.isStopping = true;
    for (const client of this.#clients) client.isStopping = true;
    await this.#settle(Promise.all([keeper, ...clients]), "the clients did not end");
    await this.#readAll();
    await this.#settle(this.#node.stop(), "the broker did not stop");
    this.#world.sometimes(MARK.STOPPED_IN_ORDER);
    await this.#readAll();
    await this.#settle(
      Promise.all([this.#keeperClient, ...this.#clients].map((client) => client.close())),
      "the clients did not close",
    );
  }

  async #mustProgress(): Promise<void> {
    const goals = this.#clients.map((client) => ({ client, acknowledged: client.acknowledged + ACKS_AFTER_HEAL }));
    const isDone = (): boolean => goals.every((goal) => goal.client.acknowledged >= goal.acknowledged);
    if (!(await this.#runUntil(isDone, this.#world.nowMs + LIVENESS_WITHIN_MS)))
      this.#stuck("a producer made no progress after the heal");
  }

  async #readAll(): Promise<void> {
    // What was acknowledged with acks=1 is not readable before its sync has ended.
    await this.#runUntil(() => false, this.#world.nowMs + SYNCED_WITHIN_MS);
    const client = await this.#settle(this.#keeperClient.connect(), "no connection for the scan");
    const sink = { world: this.#world, record: (event: HistoryEvent) => this.#record(event) };
    for (const topic of this.#board.live)
      await this.#settle(scanTopic(client, topic.name, sink), `${topic.name} could not be read whole`);
  }

  /** Invariant 44: what must end within a bound did not. */
  #stuck(what: string): never {
    const { state, refusal } = this.#node;
    const why = refusal === undefined ? "" : `, refuses to start: ${refusal.code} ${refusal.message}`;
    this.#checkers.violations.push({ invariant: 44, message: `${what} (${this.#node.name} is ${state}${why})` });
    throw new Error(what);
  }

  async #settle<T>(promise: Promise<T>, failure: string): Promise<T> {
    let isSettled = false;
    const watch = (): void => {
      isSettled = true;
    };
    promise.then(watch, watch);
    if (!(await this.#runUntil(() => isSettled, this.#world.nowMs + END_WITHIN_MS))) this.#stuck(failure);
    return promise;
  }

  /** As the world's, but stops for each look at the platter, and at the first violation. */
  async #runUntil(condition: () => boolean, untilMs: number): Promise<boolean> {
    const { violations } = this.#checkers;
    for (;;) {
      const isDone = await this.#world.runUntil(() => this.#owesProbe || violations.length > 0 || condition(), untilMs);
      if (violations.length > 0) throw new Error("an invariant is broken");
      if (!this.#owesProbe) return isDone;
      this.#owesProbe = false;
      await this.#probe();
    }
  }

  async #probe(): Promise<void> {
    const { name: node, disk } = this.#node;
    const timeMs = this.#world.nowMs;
    const ends = await this.#recovered(disk.image).catch((thrown: unknown) => asOttlaError(thrown));
    if (ends instanceof OttlaError) {
      this.#record({ type: "start refused", timeMs, node, code: ends.code, reason: ends.message });
      return;
    }
    for (const { name, partitions } of this.#board.live) {
      for (let partition = 0; partition < partitions; partition++) {
        const endOffset = ends.find((end) => end.topic === name && end.partition === partition)?.endOffset ?? 0;
        this.#record({ type: "end", timeMs, source: "platter", topic: name, partition, endOffset });
      }
    }
  }

  #recovered(image: DiskImage): Promise<readonly PlatterEnd[]> {
    const { host, codecs } = this.#options;
    const seed = this.#world.seed * 1000 + this.#probes++;
    return recoverCopy(image, { seed, host, codecs, config: storageConfigOf(this.#node.config) });
  }

  #record(event: HistoryEvent): void {
    if (event.type === "read") this.#reads++;
    if (this.#world.isTraced) this.#world.note("history", event.type, describeEvent(event));
    const before = this.#checkers.violations.length;
    this.#checkers.observe(event);
    for (const violation of this.#checkers.violations.slice(before)) {
      this.#world.note("", "violation", `invariant ${violation.invariant}: ${violation.message}`);
    }
  }

  #whyNotCounted(batches: number): string | undefined {
    if (!this.#hasFinished) return "it did not finish";
    if (batches < BATCHES_TO_COUNT) return `only ${batches} batches were committed`;
    const fewest = Math.min(...this.#clients.map((client) => client.acknowledged));
    if (fewest < ACKS_TO_COUNT) return `a client has only ${fewest} acknowledgements`;
    return this.#node.starts < 2 ? "no broker restarted" : undefined;
  }
}

function describeEvent(event: HistoryEvent): string {
  const { type: _, timeMs: __, ...fields } = event;
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${Array.isArray(value) ? `${value.length} records` : String(value)}`)
    .join(" ");
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function describeFailure(thrown: unknown): string {
  const error = asError(thrown);
  const cause = error.cause instanceof Error ? `\ncaused by ${error.cause.stack ?? error.cause.message}` : "";
  return `${error.stack ?? error.message}${cause}`;
}
