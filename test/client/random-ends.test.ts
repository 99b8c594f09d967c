// Whatever is asked of a client at once, and whatever its brokers do meanwhile: all is told, it goes on once they are well, and a close ends.
import { expect, it } from "vitest";
import { utf8Decode } from "../../src/base/bytes.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { Client, Consumer, ConsumerOptions, Producer } from "../../src/client/types.ts";
import { createAbort } from "./abort.ts";
import { FakeBroker, type FakeTopic, type Verdict } from "./fake-broker.ts";
import { createWorld, type World } from "./world.ts";

const SEEDS = 20;
const STEPS = 150;
const TOPICS = ["t", "u"];
const STARTS = ["start", "end", { offset: 3 }, { fromEnd: 2 }] as const;

const REFUSALS: readonly Verdict[] = [
  { error: "NOT_LEADER_OR_FOLLOWER", outcome: "not appended" },
  { error: "NOT_ENOUGH_REPLICAS", outcome: "not appended" },
  { error: "BUSY", outcome: "not appended" },
  { error: "REQUEST_TIMED_OUT", outcome: "unknown" },
  { error: "UNKNOWN_SERVER_ERROR", outcome: "unknown" },
  "swallow",
  "cut",
];

type Steps = readonly (() => unknown)[];

/** One client with all that it made, its brokers, and what it was asked and has not told. */
class Ground {
  readonly rng: Rng;
  readonly world: World;
  readonly first: FakeBroker;
  readonly brokers: readonly FakeBroker[];
  readonly client: Client;
  readonly producers: readonly Producer[];
  readonly readers: { readonly consumer: Consumer; readonly iterator: AsyncIterator<unknown> }[] = [];
  readonly aborts: (() => void)[] = [];
  readonly untold = new Set<string>();
  troublePerMille = 0;
  #askedCount = 0;

  constructor(
    rng: Rng,
    parts: { readonly world: World; readonly brokers: readonly FakeBroker[]; readonly client: Client },
  ) {
    this.rng = rng;
    this.world = parts.world;
    this.brokers = parts.brokers;
    this.first = parts.brokers[0] as FakeBroker;
    this.client = parts.client;
    const common = { deliveryTimeoutMs: 8_000, requestTimeoutMs: 2_000, bufferBytes: 2_000, batchBytes: 300 };
    this.producers = [
      { ...common, lingerMs: 0 },
      { ...common, name: "n", lingerMs: 3 },
      { ...common, acks: 1 as const, maxInFlight: 1 },
      { ...common, acks: 0 as const },
    ].map((options) => this.client.producer(options));
    for (const broker of this.brokers) {
      broker.onProduce = () => (this.#isTroubled() ? rng.pick(REFUSALS) : undefined);
      broker.onFetch = () =>
        this.#isTroubled() ? rng.pick(["cut", "NOT_LEADER_OR_FOLLOWER", "STORAGE_ERROR"] as const) : undefined;
      broker.initProducerError = () => (this.#isTroubled() ? "BUSY" : undefined);
    }
  }

  static async make(seed: number): Promise<Ground> {
    const rng = createRng(seed);
    const world = createWorld(seed);
    const first = await FakeBroker.start(world);
    const brokers = [first, await first.join(), await first.join()];
    for (const name of TOPICS) first.createTopic(name, 1 + rng.below(4));
    const client = await world.connect({ brokers: brokers.map(({ address }) => address) });
    return new Ground(rng, { world, brokers, client });
  }

  watch(what: string, promise: Promise<unknown> | undefined): void {
    if (promise === undefined) return;
    const name = `${what} ${this.#askedCount++}, asked at ${this.world.time.nowMs} ms`;
    this.untold.add(name);
    const tell = () => void this.untold.delete(name);
    promise.then(tell, tell);
  }

  topic(): string {
    return this.rng.pick(["t", "t", "u", "u", "v"]);
  }

  signal(): { signal?: AbortSignal } {
    if (this.rng.below(4) > 0) return {};
    const { signal, abort } = createAbort();
    this.aborts.push(abort);
    if (this.rng.below(5) === 0) abort();
    return { signal };
  }

  record() {
    return {
      value: "x".repeat(this.rng.below(200)),
      ...(this.rng.below(2) === 0 ? { key: `${this.rng.below(9)}` } : {}),
      ...(this.rng.below(3) === 0 ? { partition: this.rng.below(3) } : {}),
    };
  }

  consume(): void {
    const { rng } = this;
    const options: ConsumerOptions = {
      topics: [this.topic()],
      untilEnd: rng.below(2) === 0,
      timeoutMs: 5_000,
      maxWaitMs: 100,
      from: rng.pick(STARTS),
      onOutOfRange: rng.pick(["start", "end", "error"] as const),
      ...this.signal(),
    };
    const consumer = this.client.consumer(options);
    this.readers.push({ consumer, iterator: consumer[Symbol.asyncIterator]() });
  }

  moveLeaders(name: string): void {
    const { rng } = this;
    for (const partition of this.first.topics.get(name)?.partitions ?? []) {
      if (rng.below(2) > 0) continue;
      partition.leader = rng.below(6) === 0 ? -1 : 1 + rng.below(3);
      partition.leaderEpoch++;
      if (rng.below(8) > 0) continue;
      partition.uncleanEpoch = partition.leaderEpoch;
      partition.batches.length = rng.below(partition.batches.length + 1);
    }
  }

  #isTroubled(): boolean {
    return this.rng.below(1_000) < this.troublePerMille;
  }
}

/** Whatever it throws at once is told thereby. */
function orRefused(run: () => unknown): void {
  try {
    run();
  } catch {
    // Not prepared, full, or not read by that one.
  }
}

function clientSteps(ground: Ground): Steps {
  const { rng, client, producers, readers, aborts } = ground;
  const admin = client.admin();
  const producer = () => rng.pick(producers);
  const record = () => ground.record();
  const reader = () => (readers.length > 0 ? rng.pick(readers) : undefined);
  const timeoutMs = 3_000;
  const send = () => ground.watch("send", producer().send(ground.topic(), record(), ground.signal()));
  const next = () => ground.watch("next", reader()?.iterator.next());
  return [
    send,
    send,
    () => ground.watch("batch", producer().sendBatch(ground.topic(), [record(), record(), record()], ground.signal())),
    () => orRefused(() => ground.watch("room", producer().enqueue(ground.topic(), record()))),
    () => ground.watch("prepare", producer().prepare(ground.topic())),
    () => ground.watch("flush", producer().flush(ground.signal())),
    () => ground.consume(),
    next,
    next,
    () => (rng.below(4) === 0 ? ground.watch("return", reader()?.iterator.return?.()) : undefined),
    () => orRefused(() => reader()?.consumer.seek(ground.topic(), rng.below(2), rng.pick(STARTS))),
    () => rng.pick([() => undefined, ...aborts])(),
    () => ground.watch("describe", admin.describeTopic(ground.topic(), { timeoutMs })),
    () => ground.watch("offsets", admin.offsets(ground.topic(), { timeoutMs, partial: rng.below(2) === 0 })),
    () => ground.watch("create", admin.createTopic(ground.topic(), { timeoutMs, partitions: 1 + rng.below(4) })),
    () => ground.watch("delete", admin.deleteTopic(ground.topic(), { timeoutMs, wait: rng.below(2) === 0 })),
  ];
}

function brokerSteps(ground: Ground): Steps {
  const { rng, brokers, first, world } = ground;
  const { blackHoles } = world.network;
  const delay = (field: "initDelayMs" | "metadataDelayMs" | "fetchDelayMs", delaysMs: readonly number[]) => {
    for (const broker of brokers) broker[field] = rng.pick(delaysMs);
  };
  const resume = () => {
    for (const broker of brokers) broker.resume();
  };
  return [
    () => ground.moveLeaders(ground.topic()),
    () => rng.pick(brokers).cutAll(),
    () => rng.pick(brokers).pause(),
    () => rng.pick(brokers).resume(),
    resume,
    () => rng.pick(brokers).stopListening(),
    () => rng.pick(brokers).listen(),
    () => blackHoles.add(rng.pick(brokers).address),
    () => blackHoles.clear(),
    () => delay("initDelayMs", [0, 0, 300, 3_000]),
    () => delay("metadataDelayMs", [0, 0, 300, 5_000]),
    () => delay("fetchDelayMs", [0, 0, 300, 5_000]),
    () => (ground.troublePerMille = rng.pick([0, 0, 100, 400])),
    () => (rng.below(3) === 0 ? first.createTopic(rng.pick(TOPICS), 1 + rng.below(4)) : undefined),
  ];
}

/** All is well again. */
async function heal(ground: Ground): Promise<void> {
  const { brokers, first, world } = ground;
  ground.troublePerMille = 0;
  world.network.blackHoles.clear();
  for (const broker of brokers) {
    broker.resume();
    broker.initDelayMs = broker.metadataDelayMs = broker.fetchDelayMs = 0;
    await broker.listen();
  }
  // Deletions that are under way end, those that are tried again, too.
  await world.time.pass(5_000);
  for (const name of TOPICS) {
    const topic: FakeTopic = first.topics.get(name) ?? first.createTopic(name, 2);
    for (const partition of topic.partitions) {
      if ((partition.leader ?? 1) >= 0) continue;
      partition.leader = 1;
      partition.leaderEpoch++;
    }
  }
}

/** What may wait for records that nobody sends is left out. */
const overdue = (ground: Ground): string[] => [...ground.untold].filter((what) => !what.startsWith("next"));

async function goesOn({ world: { time }, client, producers }: Ground): Promise<void> {
  for (const [index, producer] of producers.entries()) {
    for (const name of TOPICS) {
      const send = (value: string) => time.until(producer.send(name, { value, partition: 0 }), 10_000);
      // The first after its topic was made anew may be refused.
      await send("first").catch(() => undefined);
      await time.pass(1_500);
      await send(`last of ${index}`);
    }
  }
  const seen: string[] = [];
  const read = async (): Promise<void> => {
    const consumer = client.consumer({ topics: ["t"], untilEnd: true, timeoutMs: 5_000 });
    for await (const { value } of consumer) seen.push(utf8Decode(value ?? new Uint8Array()));
  };
  await time.until(read(), 20_000);
  expect(seen).toEqual(expect.arrayContaining(["last of 0", "last of 1", "last of 2", "last of 3"]));
}

async function closes(ground: Ground): Promise<void> {
  const { rng, world, client, producers, brokers } = ground;
  for (const producer of producers) ground.watch("send at the end", producer.send("t", ground.record()));
  ground.watch("flush at the end", producers[1]?.flush());
  if (rng.below(2) === 0) rng.pick(brokers).pause();
  ground.watch("close", client.close({ timeoutMs: rng.pick([0, 500]) }));
  await world.time.pass(3_000);
  expect([...ground.untold]).toEqual([]);
  const before = brokers.map(({ requests }) => requests.length);
  await world.time.pass(60_000);
  expect(brokers.map(({ requests }) => requests.length)).toEqual(before);
  expect(world.network.pipes.filter(({ isOpen }) => isOpen)).toEqual([]);
}

for (let seed = 1; seed <= SEEDS; seed++) {
  it(`seed ${seed}`, async () => {
    const ground = await Ground.make(seed);
    const { rng, world } = ground;
    const steps = [...clientSteps(ground), ...brokerSteps(ground)];
    for (let step = 0; step < STEPS; step++) {
      await rng.pick(steps)();
      if (rng.below(3) > 0) await world.time.pass(rng.pick([0, 1, 10, 100, 1_000]));
    }
    await heal(ground);
    await world.time.pass(40_000);
    expect(overdue(ground)).toEqual([]);
    await goesOn(ground);
    await closes(ground);
  });
}
