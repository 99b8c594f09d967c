// `kill -9` of a real node in mid-stream, again and again: what was acknowledged is there, byte-identical, at its offset, once.
import { type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { Acks, Client } from "../../src/client/types.ts";
import { connect } from "../../src/index.ts";
import type { HistoryEvent } from "../../src/sim/history.ts";
import { collect, ensureBuilt, outputMatching, start } from "../cli/support.ts";
import { doctored } from "./doctor.ts";
import { Ledger, violationsOf } from "./ledger.ts";
import { NodeUnderTest } from "./node.ts";

const KILLS = Number(process.env["OTTLA_KILLS"] ?? 8);
const SEED = Number(process.env["OTTLA_SEED"] ?? Date.now() % 1e9);
const START_KILLS = 6;
/** About as long as a small node takes from its first log line to being ready. */
const RECOVERY_MS = 80;
const PARTITIONS = 4;
const LINES_MAX = 400_000;
/** Small, so that checkpoints and new segments come between two kills. */
const SETTINGS = [
  "journal.bytes=256KiB",
  "segment.bytes=256KiB",
  "checkpoint.interval.ms=200",
  "disk.low.space.bytes=1MiB",
  "disk.reserve.bytes=1MiB",
];

let node: NodeUnderTest;
let client: Client | undefined;
beforeAll(ensureBuilt);
afterEach(async () => {
  await client?.close({ timeoutMs: 100 });
  client = undefined;
  await node.remove();
});

/** Mostly small values, some of several KiB, a few larger than a batch; any bytes after the number. */
function valueOf(number: number, rng: Rng): Uint8Array {
  const kind = rng.below(100);
  const sizeBytes = kind < 90 ? rng.below(200) : kind < 98 ? rng.below(8_000) : rng.below(100_000);
  const fill = Buffer.alloc(sizeBytes, Buffer.from(Uint32Array.of(rng.u32(), rng.u32(), rng.u32()).buffer));
  return Buffer.concat([Buffer.from(`${number} `), fill]);
}

/** A producer that never stops by itself, until it is told to; then every outcome is known. */
class Load {
  readonly ledger: Ledger;
  readonly #rng: Rng;
  readonly #client: Client;
  readonly #acks: Acks;
  #sent: number;

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
    const options = { acks: this.#acks, lingerMs: 1, batchBytes: 16_384, deliveryTimeoutMs: 60_000 };
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

/** Lets the load run over a random number of acknowledgements, then kills some random moment later, with sends under way. */
async function killInMidStream(ledger: Ledger, rng: Rng): Promise<void> {
  const until = ledger.acknowledged + 100 + rng.below(1200);
  while (ledger.acknowledged < until || ledger.open === 0) await turn();
  await node.killAfter(rng.below(60));
  ledger.killed();
}

function expectSound(ledger: Ledger): void {
  expect(violationsOf(ledger.events), `seed ${SEED}`).toEqual([]);
}

const superblocks = () =>
  readdirSync(node.dataDir)
    .filter((name) => name.startsWith("superblock"))
    .map((name) => readFileSync(join(node.dataDir, name)).toString("hex"))
    .join();

const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesBelow(join(directory, entry.name)) : [join(directory, entry.name)],
  );

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** `settings` win over those that all have. */
async function prepare(
  settings: readonly string[] = [],
): Promise<{ readonly client: Client; readonly ledger: Ledger }> {
  node = await NodeUnderTest.create([...SETTINGS, ...settings]);
  await node.start();
  client = await connect({ brokers: [node.address], connectTimeoutMs: 20_000 });
  await client.admin().createTopic("t", { partitions: PARTITIONS });
  return { client, ledger: new Ledger("t") };
}

describe("kill -9 in mid-stream", () => {
  for (const [index, acks] of (["all", 1] as const).entries()) {
    it(`keeps what was acknowledged with acks=${acks}, over ${KILLS} kills`, { timeout: 180_000 }, async () => {
      const rng = createRng([SEED, index, 1, 1]);
      const { client, ledger } = await prepare();
      const load = new Load(ledger, client, { acks, rng });
      const before = superblocks();
      for (let kill = 0; kill < KILLS; kill++) {
        const stop = new AbortController();
        const done = load.run(stop.signal);
        await killInMidStream(ledger, rng);
        await node.start();
        stop.abort();
        await done;
        await ledger.scan(client);
        expectSound(ledger);
      }
      await node.stop();
      await node.start();
      const found = await ledger.scan(client);
      expectSound(ledger);
      console.log(
        `acks=${acks}: ${ledger.acknowledged} acknowledged, ${ledger.unknown} unknown, ${ledger.failed} refused, ${found} there`,
      );
      expect(ledger.failed).toBe(0);
      expect(found).toBeGreaterThanOrEqual(ledger.acknowledged);
      expect(found).toBeLessThanOrEqual(ledger.acknowledged + ledger.unknown);
      // The kills hit what they were meant to hit: requests under way, between checkpoints, over several segments.
      expect(ledger.unknown).toBeGreaterThan(0);
      expect(superblocks()).not.toBe(before);
      expect(filesBelow(node.dataDir).filter((path) => path.endsWith(".log")).length).toBeGreaterThan(PARTITIONS + 1);
      expectAlarms(ledger.events);
    });
  }
});

describe("kill -9 while the node starts", () => {
  it("keeps what was acknowledged when recovery itself is killed, again and again", { timeout: 180_000 }, async () => {
    const rng = createRng([SEED, 9, 1, 1]);
    // A long journal without checkpoints: there is something to recover.
    const { client, ledger } = await prepare(["journal.bytes=16MiB", "checkpoint.interval.ms=60s"]);
    const loads = (["all", 1] as const).map(
      (acks) => new Load(ledger, client, { acks, rng, firstNumber: acks === 1 ? 1e9 : 0 }),
    );
    let killedInRecovery = 0;
    for (let round = 0; round < 2; round++) {
      const stop = new AbortController();
      const done = Promise.all(loads.map((load) => load.run(stop.signal)));
      await killInMidStream(ledger, rng);
      for (let kill = 0; kill < START_KILLS; kill++) {
        const child = node.spawn();
        if (kill % 2 === 1) await outputMatching(child, "stderr", /node_starting/);
        await delay(kill % 2 === 1 ? rng.below(RECOVERY_MS) : 50 + rng.below(250));
        await node.kill();
        ledger.killed();
        if (/node_starting/.test(node.log) && !/node_ready/.test(node.log)) killedInRecovery++;
      }
      await node.start();
      stop.abort();
      await done;
      await ledger.scan(client);
      expectSound(ledger);
    }
    console.log(`${killedInRecovery} of ${2 * START_KILLS} kills between the beginning of the start and its end`);
    expect(killedInRecovery).toBeGreaterThan(0);
    expect(ledger.failed).toBe(0);
    expectAlarms(ledger.events);
  });
});

describe("kill -9 under `ottla produce`", () => {
  it("its summary tells the truth, and nothing is there twice", { timeout: 60_000 }, async () => {
    const rng = createRng([SEED, 11, 1, 1]);
    const { client } = await prepare();
    for (const [index, acks] of ["all", "1"].entries()) {
      const topic = await node.createTopic(`lines-${index}`, { partitions: 3 });
      const child = start(["produce", topic, "--acks", acks, "-z", index === 0 ? "none" : "lz4", "--json"], {
        env: { OTTLA_BOOTSTRAP: node.address },
      });
      const done = collect(child, 50_000);
      const lines = await feed(child, {
        rng,
        restart: async () => {
          await expect.poll(async () => endOf(client, topic), { timeout: 10_000 }).toBeGreaterThan(0);
          await node.killAfter(rng.below(40));
          await node.start();
        },
      });
      const { code, stdout, stderr } = await done;
      const summary = JSON.parse(stdout) as Record<string, number>;
      const { recordsAcknowledged = 0, recordsUnknown = 0, recordsRead } = summary;
      const out = await node.run(["consume", topic, "-e", "-q"]);
      const found = out.stdoutBytes.toString("latin1").split("\n").slice(0, -1);
      console.log(
        `produce --acks ${acks}: ${recordsAcknowledged} of ${recordsRead} acknowledged, ${recordsUnknown} unknown, ${found.length} there`,
      );
      expect(recordsRead).toBe(lines.length);
      expect(recordsAcknowledged + recordsUnknown, stderr).toBe(lines.length);
      expect(new Set(found).size, "lines that are there twice").toBe(found.length);
      const sent = new Set(lines);
      expect(found.filter((line) => !sent.has(line))).toEqual([]);
      expect(found.length).toBeGreaterThanOrEqual(recordsAcknowledged);
      expect(code, stderr).toBe(recordsUnknown === 0 ? 0 : 1);
    }
  });
});

async function endOf(client: Client, topic: string): Promise<number> {
  return (await client.admin().offsets(topic)).reduce((sum, { endOffset }) => sum + endOffset, 0);
}

/** Writes numbered lines before, while and after the node is killed and started again. */
async function feed(
  child: ChildProcess,
  { rng, restart }: { readonly rng: Rng; readonly restart: () => Promise<void> },
): Promise<string[]> {
  const lines: string[] = [];
  let isRestarted = false;
  const restarted = restart().finally(() => {
    isRestarted = true;
  });
  const write = async () => {
    const more = Array.from({ length: 100 }, (_, index) => `${lines.length + index} ${"x".repeat(rng.below(300))}`);
    lines.push(...more);
    if (child.stdin?.write(`${more.join("\n")}\n`) === false) await once(child.stdin, "drain");
    await turn();
  };
  while (!isRestarted && lines.length < LINES_MAX) await write();
  await restarted;
  for (let more = 0; more < 20; more++) await write();
  child.stdin?.end();
  return lines;
}

describe("a stop in order", () => {
  it("loses nothing, refuses nothing without saying so, and starts again", { timeout: 60_000 }, async () => {
    const rng = createRng([SEED, 10, 1, 1]);
    const { client, ledger } = await prepare();
    const load = new Load(ledger, client, { acks: 1, rng });
    for (let round = 0; round < 3; round++) {
      const stop = new AbortController();
      const done = load.run(stop.signal);
      const until = ledger.acknowledged + 200 + rng.below(500);
      while (ledger.acknowledged < until) await turn();
      await node.stop();
      await node.start();
      stop.abort();
      await done;
      await ledger.scan(client);
      expectSound(ledger);
    }
    console.log(
      `clean stops: ${ledger.acknowledged} acknowledged, ${ledger.unknown} unknown, ${ledger.failed} refused`,
    );
    expect(ledger.failed).toBe(0);
  });
});

/** The same history with one thing wrong must be judged wrong. */
function expectAlarms(events: readonly HistoryEvent[]): void {
  for (const { wrong, invariant, events: changed } of doctored(events)) {
    expect(
      violationsOf(changed).map((violation) => violation.invariant),
      wrong,
    ).toContain(invariant);
  }
}
