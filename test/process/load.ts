// What the kill tests share: a node whose journal and segments are small, a load on it, and the ledger of the load.
import { expect } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { Acks, BatchReport, Client } from "../../src/client/types.ts";
import { connect } from "../../src/index.ts";
import { doctored } from "./doctor.ts";
import { Ledger, violationsOf } from "./ledger.ts";
import { NodeUnderTest } from "./node.ts";

/** OTTLA_SEED repeats a run's values and the choice of its moments, though not their exact time. */
const SEED = Number(process.env["OTTLA_SEED"] ?? Date.now() % 1e9);
export const PARTITIONS = 4;
const STUCK_MS = 30_000;
/** Small, so that checkpoints and new segments come between two kills. */
const SETTINGS = [
  "journal.bytes=256KiB",
  "segment.bytes=256KiB",
  "checkpoint.interval.ms=200",
  "disk.low.space.bytes=1MiB",
  "disk.reserve.bytes=1MiB",
];

export const turn = () => new Promise((resolve) => setImmediate(resolve));

export class KillWorld {
  readonly node: NodeUnderTest;
  readonly client: Client;
  readonly ledger = new Ledger("t");
  readonly rng: Rng;

  private constructor(node: NodeUnderTest, client: Client, rng: Rng) {
    this.node = node;
    this.client = client;
    this.rng = rng;
  }

  /** `settings` win over those that all have. `name` gives each test random numbers of its own. */
  static async start(name: string, settings: readonly string[] = []): Promise<KillWorld> {
    const node = await NodeUnderTest.create([...SETTINGS, ...settings]);
    await node.start();
    const client = await connect({ brokers: [node.address], connectTimeoutMs: 20_000 });
    await client.admin().createTopic("t", { partitions: PARTITIONS });
    return new KillWorld(node, client, createRng(SEED).fork(name));
  }

  async end(): Promise<void> {
    await this.client.close({ timeoutMs: 100 });
    await this.node.remove();
  }

  /** Lets the load run over a random number of acknowledgements, then kills some random moment later, with sends under way. */
  async killInMidStream(): Promise<void> {
    const { ledger, rng } = this;
    const until = ledger.acknowledged + 100 + rng.below(1200);
    const giveUpAt = performance.now() + STUCK_MS;
    while (ledger.acknowledged < until || ledger.open === 0) {
      this.node.expectAlive();
      if (performance.now() > giveUpAt)
        throw new Error(`nothing is acknowledged any more; the node says:\n${this.node.log}`);
      await turn();
    }
    await this.node.killAfter(rng.below(60));
    ledger.killed();
  }

  /** Reads everything and compares it with the ledger. Returns how many records there are. */
  async audit(): Promise<number> {
    const found = await this.ledger.scan(this.client);
    expect(violationsOf(this.ledger.events), `seed ${SEED}`).toEqual([]);
    return found;
  }

  /** The same history with one thing wrong must be judged wrong. */
  expectAlarms(): void {
    for (const { wrong, invariant, events } of doctored(this.ledger.events)) {
      expect(
        violationsOf(events).map((violation) => violation.invariant),
        wrong,
      ).toContain(invariant);
    }
  }
}

/** Mostly small values, some of several KiB, a few larger than a batch; any bytes after the number. */
function valueOf(number: number, rng: Rng): Uint8Array {
  const kind = rng.below(100);
  const sizeBytes = kind < 90 ? rng.below(200) : kind < 98 ? rng.below(8_000) : rng.below(100_000);
  const fill = Buffer.alloc(sizeBytes, Buffer.from(Uint32Array.of(rng.u32(), rng.u32(), rng.u32()).buffer));
  return Buffer.concat([Buffer.from(`${number} `), fill]);
}

/** A producer that never stops by itself, until it is told to; then every outcome is known. */
export class Load {
  readonly ledger: Ledger;
  readonly #rng: Rng;
  readonly #client: Client;
  readonly #acks: Acks;
  #sent: number;
  /** Batches that took more than one attempt. */
  sentAgain = 0;

  /** `firstNumber` keeps the values of several loads apart. */
  constructor(
    ledger: Ledger,
    client: Client,
    options: { readonly acks: Acks; readonly rng: Rng; readonly firstNumber?: number },
  ) {
    this.#sent = options.firstNumber ?? 0;
    this.ledger = ledger;
    this.#client = client;
    this.#acks = options.acks;
    this.#rng = options.rng;
  }

  /** Ends when `signal` aborts and the last outcome is in the ledger. */
  async run(signal: AbortSignal): Promise<void> {
    const onBatch = ({ attempts }: BatchReport): void => {
      if (attempts > 1) this.sentAgain++;
    };
    const options = { acks: this.#acks, lingerMs: 1, batchBytes: 16_384, deliveryTimeoutMs: 60_000, onBatch };
    const producers = [
      this.#client.producer(options),
      this.#client.producer({ ...options, compression: "lz4" }),
    ] as const;
    const one = async () => {
      while (!signal.aborted) {
        const number = this.#sent++;
        const key = number % 3 === 0 ? Buffer.from(`key ${number % 7}`) : null;
        const entry = {
          key,
          value: valueOf(number, this.#rng),
          partition: this.#rng.below(PARTITIONS),
          acks: this.#acks,
        };
        await this.ledger.send(producers[number % 5 === 0 ? 1 : 0], entry);
      }
    };
    await Promise.all(Array.from({ length: 64 }, one));
    await Promise.all(producers.map((producer) => producer.close()));
    await this.#becomeDurable();
  }

  /** What was acknowledged with acks=1 can be read a little later. An acknowledgement of acks=all comes when all before it can. */
  async #becomeDurable(): Promise<void> {
    const producer = this.#client.producer({ lingerMs: 0 });
    const last = (partition: number) => {
      const entry = { key: null, value: Buffer.from(`${this.#sent++} durable`), partition, acks: "all" } as const;
      return this.ledger.send(producer, entry);
    };
    await Promise.all(Array.from({ length: PARTITIONS }, (_, partition) => last(partition)));
    await producer.close();
  }
}
