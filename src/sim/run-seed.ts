// One seed: a whole cluster with clients in one process, broken for a while, then healed, then read whole.
//
//   safety     all faults of the seed; checkers look at every event
//   core       of several nodes: only enough of them to decide are mended, the rest stays broken; these must make progress
//   liveness   everything is mended: every producer must be acknowledged again within a bound, every node be where the others are
//   end        producers end; every partition is read whole; the nodes stop in order, start, and all is read again
import type { Violation } from "../checkers/checker.ts";
import { SimCluster } from "./cluster.ts";
import { chooseCore, type Core, cutOffTheRest } from "./core-heal.ts";
import { SEVERAL } from "../checkers/fault-atlas.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import { MARK, RARE_MARK } from "./marks.ts";
import { nodeIdOf } from "../raft/types.ts";
import { Nemesis } from "./nemesis/nemesis.ts";
import { SimNetwork } from "./network.ts";
import type { SimNode } from "./node.ts";
import { asError, describeFailure } from "./failure-text.ts";
import { ReplicaComparison } from "./replicas/comparison.ts";
import { QuorumWatch } from "./quorum-watch.ts";
import type { LifeParts } from "./replicas/life-watch.ts";
import { ReplicaWatch } from "./replicas/replica-watch.ts";
import { RunLog } from "./run-log.ts";
import { describeSwarm, drawSwarm, type SwarmConfig } from "./swarm.ts";
import { SimClient } from "./workload/client.ts";
import { BadClient } from "./workload/bad-client.ts";
import { MetadataWorkload } from "./workload/metadata-clients.ts";
import { Operator } from "./workload/operator.ts";
import { scanTopic } from "./workload/scanner.ts";
import { TopicBoard } from "./workload/topics.ts";
import { TopicKeeper } from "./workload/topic-keeper.ts";
import type { SeedOptions, SeedResult } from "./seed-types.ts";
import { SimWorld } from "./world.ts";

export type { SeedOptions, SeedResult } from "./seed-types.ts";

const LIVENESS_WITHIN_MS = 60_000;
const END_WITHIN_MS = 120_000;
const SYNCED_WITHIN_MS = 3000;
/** The questions of one reading are no part of the pace of the next (workload/pace.ts). */
const BETWEEN_READINGS_MS = 1000;
const REPAIRED_WITHIN_MS = 30_000;
/** A scrub under way is at most that far behind: its bandwidth is bounded, too. */
const SCRUB_SLACK_MS = 10_000;
const LOOK_EVERY_MS = 2;
const STAYS_LED_MS = 3000;
const TURNS_CHANCE = 0.2;
const ACKS_AFTER_HEAL = 5;
const COMMITTED_TO_COUNT = 300;
const ACKS_TO_COUNT = { single: 100, several: 20 };

interface Place {
  readonly topic: string;
  readonly partition: number;
}

export async function runSeed(seed: number, options: SeedOptions): Promise<SeedResult> {
  return new SeedRun(seed, options).run();
}

class SeedRun {
  readonly #options: SeedOptions;
  readonly #world: SimWorld;
  readonly #swarm: SwarmConfig;
  readonly #network: SimNetwork;
  readonly #watch: QuorumWatch;
  readonly #replicas: ReplicaWatch;
  readonly #cluster: SimCluster;
  readonly #nemesis: Nemesis;
  readonly #log: RunLog;
  readonly #board = new TopicBoard();
  readonly #clients: SimClient[];
  readonly #badClients: readonly BadClient[];
  readonly #keeper: TopicKeeper;
  readonly #keeperClient: SimClient;
  /** Asks whether a core of the nodes makes progress. */
  readonly #prober: SimClient;
  readonly #metadata: MetadataWorkload;
  readonly #operator: Operator;
  readonly #operatorClient: SimClient;
  #operations = 0;
  #hasFinished = false;

  constructor(seed: number, options: SeedOptions) {
    this.#options = options;
    const { host, codecs, onTrace } = options;
    const world = new SimWorld({ seed, host, ...(onTrace === undefined ? {} : { onTrace }) });
    this.#world = world;
    const drawn = drawSwarm(world.fork("swarm"), options.baseConfig);
    this.#swarm = options.adjust?.(drawn) ?? drawn;
    this.#network = new SimNetwork(world, { link: this.#swarm.link });
    this.#log = new RunLog(world, (partition) => this.#homeOf(partition));
    const record = (event: HistoryEvent): void => this.#log.record(event);
    const onViolation = (violation: Violation): void => this.#log.violated(violation);
    const life: LifeParts = {
      codecs,
      imageOf: (node) => this.#cluster.node(node).disk.image,
      hasTrueClocks: this.#swarm.faults.clockMs === 0,
    };
    this.#replicas = new ReplicaWatch({ world, onViolation, record, life });
    this.#watch = new QuorumWatch({ world, onViolation, onCommitted: (image) => this.#replicas.committed(image) });
    const parts = { world, network: this.#network, codecs, record };
    this.#cluster = new SimCluster(
      { ...parts, host, watch: this.#watch, replicas: this.#replicas, onDown: (node) => this.#nemesis.supervise(node) },
      this.#swarm,
    );
    const clientParts = {
      ...parts,
      board: this.#board,
      nextOperation: () => this.#operations++,
      brokers: this.#cluster.addresses,
      isLost: (place: { readonly topic: string; readonly partition: number }) => this.#cluster.isLost(place),
    };
    this.#clients = this.#swarm.clients.map((plan, index) => new SimClient(`client-${index + 1}`, clientParts, plan));
    const { faults, broker } = this.#swarm;
    const mayBeForgotten = faults.clockMs > 0 && broker["producer.id.expiration.ms"] < Number.MAX_SAFE_INTEGER;
    this.#badClients = Array.from(
      { length: this.#swarm.badClients },
      (_, index) => new BadClient(`bad-${index + 1}`, clientParts, { mayBeForgotten }),
    );
    const [firstPlan] = this.#swarm.clients;
    if (firstPlan === undefined) throw new RangeError("a run needs a client");
    const helperPlan = { ...firstPlan, isNamed: false, isIdempotent: true, deathMs: 0 };
    this.#keeperClient = new SimClient("keeper", clientParts, helperPlan);
    this.#prober = new SimClient("prober", clientParts, helperPlan);
    const operatorClient = new SimClient("operator", clientParts, helperPlan);
    this.#operatorClient = operatorClient;
    this.#operator = new Operator(
      {
        world,
        cluster: this.#cluster,
        connect: () => operatorClient.connect(),
        wait: (delayMs) => operatorClient.wait(delayMs),
        record,
        nextOperation: clientParts.nextOperation,
        board: this.#board,
        mayTrim: (topic, partition, toOffset) => this.#cluster.mayTrim({ topic, partition }, toOffset),
      },
      this.#swarm.operator,
    );
    this.#metadata = new MetadataWorkload(
      { ...clientParts, nodes: this.#cluster.nodes.map(({ id }) => id) },
      this.#swarm.metadata,
    );
    const wait = (delayMs: number): Promise<void> => this.#keeperClient.wait(delayMs);
    this.#keeper = new TopicKeeper({ world, board: this.#board, record, wait }, this.#swarm);
    this.#nemesis = this.#makeNemesis(record);
  }

  #makeNemesis(record: (event: HistoryEvent) => void): Nemesis {
    const clients = [...this.#clients, ...this.#badClients, this.#keeperClient, this.#operatorClient];
    return new Nemesis(
      {
        world: this.#world,
        network: this.#network,
        cluster: this.#cluster,
        clients: [...clients.map(({ name }) => name), ...this.#metadata.names],
        record,
      },
      this.#swarm,
      (node) => this.#log.owesProbe(node),
    );
  }

  #homeOf(partition: string): string | undefined {
    const at = partition.lastIndexOf("-");
    const [home, ...others] = this.#cluster.replicasOf(partition.slice(0, at), Number(partition.slice(at + 1)));
    return others.length > 0 ? SEVERAL : home?.name;
  }

  async run(): Promise<SeedResult> {
    let failure: string | undefined;
    try {
      await this.#phases();
      this.#log.conclude();
      this.#hasFinished = true;
    } catch (thrown) {
      failure = this.#log.violations.length > 0 ? undefined : describeFailure(thrown);
    }
    if (this.#log.excusedLosses > 0) this.#world.sometimes(MARK.EXCUSED_LOSS);
    const { hash, nowMs, faults, marks, seed } = this.#world;
    const batches = this.#clients.reduce((sum, client) => sum + client.batches, 0);
    const commands = this.#watch.committedEnd;
    return {
      seed,
      violations: this.#log.violations,
      failure,
      notCounted: this.#whyNotCounted(batches + commands),
      hash: hash.value,
      checkpoints: hash.checkpoints,
      events: hash.events,
      simulatedMs: nowMs,
      nodes: this.#cluster.nodes.length,
      batches,
      commands,
      controllerMoves: this.#watch.controllerMoves,
      leadershipMoves: this.#replicas.leadershipMoves,
      hasReplicas: this.#swarm.replicasMax > 1,
      reads: this.#log.reads,
      starts: this.#cluster.nodes.reduce((sum, node) => sum + node.starts, 0),
      faults,
      marks,
      acts: this.#nemesis.acts,
      swarm: describeSwarm(this.#swarm),
    };
  }

  async #phases(): Promise<void> {
    for (const node of this.#cluster.nodes) node.start();
    await this.#settle(
      this.#keeperClient.connect().then((client) => this.#keeper.createAll(client)),
      "the topics were not created",
    );
    const keeper = this.#keeperClient.connect().then((client) => this.#keeper.run(client));
    const clients = this.#clients.map((client) => client.run());
    const operator = this.#operator.run();
    const metadata = this.#metadata.run();
    const bad = this.#badClients.map((client) => client.run());
    for (const running of [keeper, operator, metadata, ...clients, ...bad])
      running.catch((thrown: unknown) => this.#world.fail(asError(thrown)));
    this.#nemesis.start();
    await this.#runUntil(() => false, this.#world.nowMs + this.#swarm.safetyMs);
    this.#operator.isStopping = true;
    for (const client of this.#clients) client.isSafe = true;
    await this.#settle(operator, "the operator did not end");
    await this.#coreLives();
    this.#world.note("", "phase", "liveness");
    this.#nemesis.heal();
    const healedMs = this.#world.nowMs;
    this.#healed(this.#cluster.nodes);
    if (this.#options.isCanary === true) throw new Error("canary: this run fails on purpose");
    await this.#mustProgress();
    this.#world.note("", "phase", "end");
    for (const client of this.#clients) client.isCalm = true;
    for (const client of this.#badClients) client.isStopping = true;
    await this.#settle(Promise.all(bad), "the bad clients did not end");
    this.#keeper.isStopping = true;
    this.#metadata.isStopping = true;
    await this.#settle(Promise.all([keeper, metadata]), "the metadata clients did not end");
    await this.#mustAgree();
    for (const client of this.#clients) client.isStopping = true;
    await this.#settle(Promise.all(clients), "the clients did not end");
    await this.#mustHeal();
    await this.#settle(this.#metadata.finish(healedMs), "the metadata could not be looked at");
    await this.#readAll();
    await this.#stopAll();
    await this.#compareReplicas();
    for (const node of this.#cluster.nodes) if (node.state === "down") node.start();
    await this.#mustAgree();
    await this.#readAll();
    await this.#readInTurns();
    await this.#settle(
      Promise.all(
        [this.#keeperClient, this.#prober, this.#operatorClient, this.#metadata, ...this.#clients].map((client) =>
          client.close(),
        ),
      ),
      "the clients did not close",
    );
  }

  /** 45: with the rest broken for ever, those that are enough to decide go on. */
  async #coreLives(): Promise<void> {
    if (this.#cluster.isSingle) return;
    this.#world.note("", "phase", "core");
    const core = chooseCore(this.#cluster, this.#world.fork("core"));
    if (core === undefined) {
      this.#world.sometimes(RARE_MARK.NO_CORE);
      return;
    }
    const dead = [...core.rest].filter(([, fate]) => fate === "down").map(([node]) => node);
    this.#nemesis.heal(dead);
    cutOffTheRest(this.#network, core);
    this.#world.sometimes(core.rest.size > 0 ? MARK.CORE_ALONE : RARE_MARK.CORE_OF_ALL);
    for (const fate of core.rest.values()) this.#world.sometimes(`left ${fate}`);
    this.#healed(core.nodes);
    const names = core.nodes.map(({ name }) => name).join(" ");
    this.#world.note(
      "",
      "core",
      `${names}; ${[...core.rest].map(([node, fate]) => `${node.name} ${fate}`).join(", ")}`,
    );
    await this.#within(LIVENESS_WITHIN_MS, this.#createTopic(), `no topic can be created with ${names} alone`, 45);
    await this.#within(LIVENESS_WITHIN_MS, this.#reach(core), `not all partitions of ${names} take records`, 45);
    await this.#staysLed(core);
  }

  /** Whoever is cut off, or hears nothing, takes the leader for gone: it must not drive it away, nor come back with a term that does. */
  async #staysLed({ nodes, rest }: Core): Promise<void> {
    const lonely = [...rest].flatMap(([node, fate]) => (fate === "down" ? [] : [node]));
    if (lonely.length === 0) return;
    const termsOf = (): readonly number[] => lonely.map(({ id }) => this.#watch.termOf(id) ?? 0);
    const [elections, terms] = [this.#watch.elections, termsOf()];
    await this.#runUntil(() => false, this.#world.nowMs + STAYS_LED_MS);
    const after = termsOf();
    // One that hears of the core's term by way of another that is left out has not raised any.
    const coreTerm = Math.max(...nodes.map(({ id }) => this.#watch.termOf(id) ?? 0));
    lonely.forEach(({ name }, at) => {
      const [from, to] = [terms[at] ?? 0, after[at] ?? 0];
      if (from > 0 && to > from + 1 && to > coreTerm)
        this.#stuck(`${name}, cut off, went from term ${from} to ${to}`, 45);
    });
    if (this.#watch.elections > elections + 1)
      this.#stuck(`${this.#watch.elections - elections} elections of a quorum that is whole`, 45);
    this.#world.sometimes(MARK.STAYS_LED);
  }

  #healed(nodes: readonly SimNode[]): void {
    this.#log.record({ type: "metadata healed", timeMs: this.#world.nowMs, nodes: nodes.map(({ id }) => id) });
  }

  async #createTopic(): Promise<void> {
    await this.#keeper.createOne(await this.#prober.connect());
  }

  /** Of partitions that the core can lead and commit in: for as long as that is so. */
  #reach({ nodes }: Core): Promise<void> {
    const places = this.#board.live.flatMap((topic) =>
      Array.from({ length: topic.partitions }, (_, partition) => ({ topic, partition })),
    );
    return this.#prober.reach(places, ({ topic, partition }) =>
      this.#cluster.canCommit({ topic: topic.name, partition }, nodes),
    );
  }

  async #mustProgress(): Promise<void> {
    const goals = this.#clients.map((client) => ({ client, acknowledged: client.acknowledged + ACKS_AFTER_HEAL }));
    const isDone = (): boolean => goals.every((goal) => goal.client.acknowledged >= goal.acknowledged);
    const untilMs = this.#world.nowMs + LIVENESS_WITHIN_MS;
    const isOver = this.#seldom(() => isDone() || !this.#hasPlace);
    while (!(await this.#runUntil(isOver, untilMs)) || !isDone()) {
      if (this.#world.nowMs >= untilMs) this.#stuck("a producer made no progress after the heal");
      await this.#settle(this.#createTopic(), "no topic can be created after the heal");
    }
  }

  /** Some partition's disk is there. */
  get #hasPlace(): boolean {
    return this.#board.live.some(({ name, partitions }) =>
      Array.from({ length: partitions }, (_, partition) => ({ topic: name, partition })).some(
        (place) => !this.#cluster.isLost(place),
      ),
    );
  }

  /** Every node runs, leads what only it can lead, and has the same metadata as the others. */
  async #mustAgree(): Promise<void> {
    const { nodes } = this.#cluster;
    const isDone = (): boolean =>
      nodes.every(({ state }) => state === "running") &&
      this.#cluster.leaderless === undefined &&
      this.#cluster.underReplicated === undefined &&
      nodes.every(({ id }) => this.#watch.imageOf(id)?.endOffset === this.#watch.committedEnd);
    if (!(await this.#runUntil(this.#seldom(isDone), this.#world.nowMs + LIVENESS_WITHIN_MS)))
      this.#stuck(`the cluster is not whole after the heal (${this.#cluster.whatIsMissing})`);
    this.#watch.compareAll(nodes.map(({ id }) => id));
  }

  /** 44: whatever was wrong with closed segments is found within a scrub, and put right within a bound. */
  async #mustHeal(): Promise<void> {
    const withinMs = this.#swarm.broker["log.scrub.period.ms"] + SCRUB_SLACK_MS + REPAIRED_WITHIN_MS;
    const isHealed = (): boolean => this.#cluster.rot.length === 0;
    if (await this.#runUntil(this.#seldom(isHealed), this.#world.nowMs + withinMs)) return;
    const [left] = this.#cluster.rot;
    if (left === undefined) return;
    const { kind, path, from, to } = left.planted;
    this.#stuck(`${kind} of ${path} [${from}, ${to}) on node ${left.node} is still there, since ${left.plantedMs} ms`);
  }

  /** 3: byte for byte what every other replica has, below what any of them knows to be committed. */
  async #compareReplicas(): Promise<void> {
    const parts = { checksum: this.#world.checksum, codecs: this.#options.codecs };
    const copies = new ReplicaComparison(parts, {
      isCompacted: (topic) => this.#board.isCompacted(topic),
      isDeleted: ({ topicId, partition }, record) => this.#replicas.isDeleted(topicId, partition, record),
    });
    for (const node of this.#cluster.nodes) copies.add(node.name, await this.#cluster.contentOf(node));
    const { difference } = copies;
    if (difference !== undefined) this.#log.violated({ invariant: 3, message: difference });
    if (copies.compared > 0) this.#world.sometimes(MARK.REPLICAS_COMPARED);
  }

  async #stopAll(): Promise<void> {
    for (const node of this.#cluster.nodes) {
      await this.#settle(node.stop(), `${node.name} did not stop`);
      this.#world.sometimes(MARK.STOPPED_IN_ORDER);
    }
  }

  /** Each node is away for a while, and what others can lead is read from them; in some seeds, since it takes time. */
  async #readInTurns(): Promise<void> {
    if (this.#swarm.replicasMax < 2 || !this.#world.fork("turns").chance(TURNS_CHANCE)) return;
    for (const node of this.#cluster.nodes) {
      if (!this.#cluster.wouldLive((replica) => nodeIdOf(replica) !== node.id)) continue;
      const others = this.#cluster.nodes.filter((other) => other !== node);
      node.isInRepair = true;
      await this.#settle(node.stop(), `${node.name} did not stop`);
      const isLed = (): boolean => this.#cluster.leaderlessWith(others) === undefined;
      if (!(await this.#runUntil(isLed, this.#world.nowMs + LIVENESS_WITHIN_MS)))
        this.#stuck(`${this.#cluster.leaderlessWith(others) ?? ""} is not led without ${node.name}`);
      await this.#readAll((place) => this.#cluster.canCommit(place, others));
      node.isInRepair = false;
      node.start();
      await this.#mustAgree();
    }
    this.#world.sometimes(MARK.READ_IN_TURNS);
  }

  async #readAll(isThere: (place: Place) => boolean = () => true): Promise<void> {
    // What was acknowledged with acks=1 is not readable before its sync has ended.
    const restedMs = this.#world.nowMs + BETWEEN_READINGS_MS;
    const isReadable = this.#seldom(() => this.#world.nowMs >= restedMs && !this.#replicas.hasUncommitted);
    await this.#runUntil(isReadable, this.#world.nowMs + SYNCED_WITHIN_MS);
    const client = await this.#settle(this.#keeperClient.connect(), "no connection for the scan");
    for (const topic of this.#board.live) {
      const parts = {
        world: this.#world,
        record: (event: HistoryEvent) => this.#log.record(event),
        isLost: (partition: number) => {
          const place = { topic: topic.name, partition };
          return this.#cluster.isLost(place) || !isThere(place);
        },
      };
      const unreadable = await this.#settle(scanTopic(client, topic, parts), `${topic.name} could not be read whole`);
      for (const { partition, error } of unreadable)
        if (!(await this.#runUntil(() => parts.isLost(partition), this.#world.nowMs + LIVENESS_WITHIN_MS))) throw error;
    }
  }

  /** What must end within a bound did not. */
  #stuck(what: string, invariant = 44): never {
    const states = this.#cluster.nodes.map(({ name, state, refusal }) => {
      const why = refusal === undefined ? "" : `, refuses to start: ${refusal.code} ${refusal.message}`;
      return `${name} is ${state}${why}`;
    });
    const unreached = [...this.#prober.unreached].map((name) => this.#replicas.describe(name));
    const message = [`${what} (${states.join("; ")})`, ...unreached, this.#watch.describe()].join("\n");
    this.#log.violated({ invariant, message });
    throw new Error(what);
  }

  #settle<T>(promise: Promise<T>, failure: string): Promise<T> {
    return this.#within(END_WITHIN_MS, promise, failure);
  }

  async #within<T>(limitMs: number, promise: Promise<T>, failure: string, invariant = 44): Promise<T> {
    let isSettled = false;
    const watch = (): void => {
      isSettled = true;
    };
    promise.then(watch, watch);
    if (!(await this.#runUntil(() => isSettled, this.#world.nowMs + limitMs))) this.#stuck(failure, invariant);
    return promise;
  }

  /** What takes some looking is not looked at after each event. */
  #seldom(condition: () => boolean): () => boolean {
    let nextMs = 0;
    return () => {
      if (this.#world.nowMs < nextMs) return false;
      nextMs = this.#world.nowMs + LOOK_EVERY_MS;
      return condition();
    };
  }

  #runUntil(condition: () => boolean, untilMs: number): Promise<boolean> {
    return this.#log.runUntil(condition, untilMs, { cluster: this.#cluster, board: this.#board });
  }

  #whyNotCounted(committed: number): string | undefined {
    if (!this.#hasFinished) return "it did not finish";
    if (committed < COMMITTED_TO_COUNT) return `only ${committed} batches and metadata commands were committed`;
    const fewest = Math.min(...this.#clients.map((client) => client.acknowledged));
    const { isSingle, nodes } = this.#cluster;
    if (fewest < (isSingle ? ACKS_TO_COUNT.single : ACKS_TO_COUNT.several))
      return `a client has only ${fewest} acknowledgements`;
    // Each is started anew at the end.
    return nodes.every(({ starts }) => starts < 3) ? "no broker restarted" : undefined;
  }
}
