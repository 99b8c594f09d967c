// Producers and consumers of the package against a cluster that is hurt while they work: every record once, in order, and nothing else.
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Client, type Producer, type TestCluster, type TestClusterOptions, testCluster } from "../../src/index.ts";
import { Reader, upTo } from "./support.ts";

const PARTITIONS = 3;
const LIMIT = { timeout: 60_000 };

let cluster: TestCluster | undefined;

beforeAll(async () => {
  await (await testCluster({ topics: { t: {} } })).close(); // loads the modules
}, 120_000);

afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});

async function opened(options: TestClusterOptions = {}): Promise<TestCluster> {
  cluster = await testCluster({ topics: { t: { partitions: PARTITIONS } }, ...options });
  return cluster;
}

/** Sends numbered records, round robin over the partitions, at a pace, until it is told to stop. */
class Load {
  readonly sent: Promise<{
    readonly partition: number;
    readonly offset: number | undefined;
    readonly value: string;
  }>[] = [];
  readonly #producer: Producer;
  #isStopping = false;
  #acknowledged = 0;
  readonly #done: Promise<void>;

  constructor(client: Client) {
    this.#producer = client.producer({ lingerMs: 2 });
    this.#done = this.#run();
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      for (let count = 0; count < 10; count++) {
        const send = this.#send(this.sent.length);
        send.catch(() => (this.#isStopping = true)); // end() tells it
        this.sent.push(send);
      }
      await new Promise<void>((resolve) => void setTimeout(resolve, 2));
    }
  }

  async #send(number: number) {
    const value = `${number}`;
    const { partition, offset } = await this.#producer.send("t", { partition: number % PARTITIONS, value });
    this.#acknowledged++;
    return { partition, offset, value };
  }

  /** Resolves when so many more than now were acknowledged; rejects when a send failed. */
  async goesOn(more = 300): Promise<void> {
    const wanted = this.#acknowledged + more;
    while (this.#acknowledged < wanted) {
      if (this.#isStopping) await Promise.all(this.sent);
      await new Promise<void>((resolve) => void setTimeout(resolve, 5));
    }
  }

  /** What was acknowledged: everything, or it rejects. */
  async end() {
    this.#isStopping = true;
    await this.#done;
    return Promise.all(this.sent);
  }
}

/** Load and reader on clients of their own while `hurt` is done; then each record was read once, where it was said to be, in the order of the sends. */
async function holds(made: TestCluster, hurt: (load: Load) => Promise<void>): Promise<void> {
  const load = new Load(await made.connect());
  const reader = new Reader(await made.connect(), "t");
  await load.goesOn();
  await hurt(load);
  await load.goesOn();
  const acknowledged = await load.end();
  await reader.until(acknowledged.length);
  await reader.close();
  expect(reader.fallen).toEqual([]);
  for (const [partition, offsets] of reader.offsets())
    expect(offsets, `partition ${partition}`).toEqual(upTo(offsets.length));
  const read = reader.records.map(({ partition, offset, value }) => `${partition}@${offset}: ${value}`);
  const told = acknowledged.map(({ partition, offset, value }) => `${partition}@${offset}: ${value}`);
  expect(read.toSorted()).toEqual(told.toSorted());
  for (const partition of upTo(PARTITIONS)) {
    const values = reader.records.filter((record) => record.partition === partition).map(({ value }) => Number(value));
    expect(values, `order in partition ${partition}`).toEqual(values.toSorted((one, other) => one - other));
  }
}

describe("a producer and a consumer go on, each record once and in order,", () => {
  it("when the leader is killed, and again when it is back", LIMIT, async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const leader = await made.leaderOf("t");
      await made.kill(leader);
      await load.goesOn();
      await made.start(leader);
      await made.waitUntilInSync();
      await load.goesOn();
      await made.kill(await made.leaderOf("t"));
      await load.goesOn();
    });
  });

  it("when each node is killed in turn", LIMIT, async () => {
    const made = await opened();
    await holds(made, async (load) => {
      for (const { id } of made.brokers) {
        await made.kill(id);
        await load.goesOn();
        await made.start(id);
        await made.waitUntilInSync();
      }
    });
  });

  it("when the controller that is a leader, too, is killed", LIMIT, async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const controller = await made.controller();
      await made.kill(controller);
      await load.goesOn();
      await made.start(controller);
    });
  });

  it("when the whole cluster is killed and started again", LIMIT, async () => {
    const made = await opened();
    await holds(made, async (load) => {
      for (let round = 0; round < 2; round++) {
        await Promise.all(made.brokers.map(({ id }) => made.kill(id)));
        await Promise.all(made.brokers.map(({ id }) => made.start(id)));
        await load.goesOn();
      }
    });
  });

  it("when the whole cluster is stopped and started again, on real disks", LIMIT, async ({ onTestFinished }) => {
    const { mkdtemp, rm } = await import("node:fs/promises");
    const { tmpdir } = await import("node:os");
    const directory = await mkdtemp(`${tmpdir()}/ottla-test-cluster-`);
    const made = await opened({ directory });
    onTestFinished(async () => {
      await made.close();
      await rm(directory, { recursive: true });
    });
    await holds(made, async () => {
      await Promise.all(made.brokers.map(({ id }) => made.stop(id)));
      await Promise.all(made.brokers.map(({ id }) => made.start(id)));
    });
  });

  it("when the leader is paused, and resumed after others lead", LIMIT, async () => {
    const made = await opened();
    await holds(made, async (load) => {
      const leader = await made.leaderOf("t");
      await made.pause(leader);
      await made.leaderOf("t");
      await load.goesOn();
      await made.resume(leader);
      await made.waitUntilInSync();
      await load.goesOn();
    });
  });

  it("when the leader is paused for a moment that nobody takes for death", LIMIT, async () => {
    const made = await opened();
    await holds(made, async () => {
      const leader = await made.leaderOf("t");
      for (let round = 0; round < 3; round++) {
        await made.pause(leader);
        await new Promise<void>((resolve) => void setTimeout(resolve, 150));
        await made.resume(leader);
      }
    });
  });

  it("when all nodes are restarted in order, one by one", LIMIT, async () => {
    const made = await opened();
    await holds(made, async () => {
      for (const { id } of made.brokers) {
        await made.restart(id);
        await made.waitUntilInSync();
      }
    });
  });
});

it(
  "what only a dead leader had is never read; others have its offsets, and every replica is as they are",
  LIMIT,
  async () => {
    const made = await opened({ topics: { t: {} } });
    const client = await made.connect();
    const producer = client.producer();
    const send = (from: number, count: number, acks: 1 | "all") =>
      producer.sendBatch(
        "t",
        upTo(count).map((number) => ({ value: `${acks} ${from + number}` })),
        { acks },
      );
    const reader = new Reader(await made.connect(), "t");
    await send(0, 20, "all");
    const leader = await made.leaderOf("t");
    const followers = made.brokers.map(({ id }) => id).filter((id) => id !== leader);
    for (const id of followers) await made.pause(id);
    const lost = await send(20, 20, 1);
    expect(lost.map(({ offset }) => offset)).toEqual(upTo(40).slice(20));
    await made.kill(leader);
    for (const id of followers) await made.resume(id);
    const kept = await send(20, 30, "all");
    expect(kept.map(({ offset }) => offset)).toEqual(upTo(50).slice(20));
    await made.start(leader);
    await made.waitUntilInSync();
    await reader.until(50);
    expect(reader.fallen).toEqual([]);
    const values = upTo(50).map((number) => `all ${number}`);
    expect(reader.records.map(({ value }) => value)).toEqual(values);
    expect(reader.offsets().get(0)).toEqual(upTo(50));
    await reader.close();
    // The one that had others leads alone: what it shows is what it has.
    for (const id of followers) await made.stop(id);
    expect(await made.leaderOf("t")).toBe(leader);
    const [state] = await client.admin().describePartitions("t");
    expect(state?.endOffset).toBe(50);
  },
);
