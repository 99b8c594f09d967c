// A client that minds its own business while others attack, in a process of its own. It sends numbered records with acks=all through the library and
// reads them back in the end; and by hand it holds some connections, on which it asks something small that needs no disk, again and again.
//
// Parent -> child: "end". Child -> parent: { kind: "report", report }.
import { setTimeout as sleep } from "node:timers/promises";
import { type BatchReport, connect } from "../../src/index.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { waitedForCpuMs } from "./node.ts";
import { Counts, RawPeer } from "./raw-peer.ts";

const TOPIC = "bystander";
const QUIET_CONNECTIONS = 8;
const PROBE_EVERY_MS = 10;
const SEND_EVERY_MS = 20;
const PROBE_GIVE_UP_MS = 20_000;

export interface BystanderReport {
  /** Slowest answers, less the time in which either process was ready to run and got no processor, ms. */
  readonly slowestProbeMs: number;
  /** As it was on the clock. */
  readonly slowestProbeRawMs: number;
  readonly probes: number;
  readonly p99Ms: number;
  readonly slowestSendMs: number;
  readonly acknowledged: number;
  /** Connections of its own that ended, and why. */
  readonly cut: readonly string[];
  /** What is wrong with what it wrote. */
  readonly faults: readonly string[];
}

class Prober {
  readonly #peers: RawPeer[];
  readonly #nodePid: number;
  readonly probeMs: number[] = [];
  readonly cut: string[] = [];
  slowestMs = 0;
  slowestRawMs = 0;
  #id = 0;
  isEnding = false;

  constructor(address: string, nodePid: number) {
    this.#nodePid = nodePid;
    this.#peers = Array.from({ length: QUIET_CONNECTIONS }, () => new RawPeer(address, new Counts()));
    for (const [at, peer] of this.#peers.entries()) {
      peer.send(
        encodeRequest(
          { api: API.HELLO, version: 0, correlationId: this.#next(), deadlineMs: 0 },
          { clientId: "bystander", software: "attack 1" },
          [],
        ),
      );
      void peer.closed.then((reason) => {
        if (!this.isEnding) this.cut.push(`connection ${at}: ${reason}`);
      });
    }
  }

  #next(): number {
    return ++this.#id;
  }

  async run(): Promise<void> {
    for (let round = 0; !this.isEnding && this.cut.length < this.#peers.length; round++) {
      const peer = this.#peers[round % this.#peers.length] as RawPeer;
      if (peer.closeReason === undefined) await this.#probe(peer);
      await sleep(PROBE_EVERY_MS);
    }
  }

  async #probe(peer: RawPeer): Promise<void> {
    const correlationId = this.#next();
    const waited = () => waitedForCpuMs(this.#nodePid) + waitedForCpuMs("self");
    const waitedMs = waited();
    const startMs = performance.now();
    peer.send(encodeRequest({ api: API.LIST_OFFSETS, version: 0, correlationId, deadlineMs: 0 }, { entries: [] }, []));
    const isAnswered = await Promise.race([
      peer.answerTo(correlationId).then(() => true),
      sleep(PROBE_GIVE_UP_MS, false),
    ]);
    const rawMs = performance.now() - startMs;
    if (!isAnswered) this.cut.push(`no answer within ${PROBE_GIVE_UP_MS} ms`);
    this.probeMs.push(rawMs);
    this.slowestRawMs = Math.max(this.slowestRawMs, rawMs);
    this.slowestMs = Math.max(this.slowestMs, rawMs - (waited() - waitedMs));
  }

  end(): void {
    this.isEnding = true;
    for (const peer of this.#peers) peer.destroy();
  }
}

/** Sends value after value; what it was told is held against what is there in the end. */
class Writer {
  readonly #address: string;
  readonly #offsets = new Map<number, string>();
  readonly faults: string[] = [];
  slowestMs = 0;
  isEnding = false;

  constructor(address: string) {
    this.#address = address;
  }

  get acknowledged(): number {
    return this.#offsets.size;
  }

  async prepare(): Promise<void> {
    const client = await connect({ brokers: [this.#address] });
    await client.admin().createTopic(TOPIC, { partitions: 1 });
    await client.close();
  }

  async run(): Promise<void> {
    const client = await connect({ brokers: [this.#address] });
    const onBatch = ({ attempts }: BatchReport) => {
      if (attempts > 1) this.faults.push(`a batch was sent ${attempts} times`);
    };
    const producer = client.producer({ onBatch });
    for (let at = 0; !this.isEnding; at++) {
      const value = `record ${at} ${"x".repeat(at % 200)}`;
      const startMs = performance.now();
      try {
        const { offset } = await producer.send(TOPIC, { value });
        if (offset === undefined || this.#offsets.has(offset))
          this.faults.push(`"${value.slice(0, 20)}" was acknowledged at offset ${offset}`);
        else this.#offsets.set(offset, value);
      } catch (error) {
        this.faults.push(`a send failed: ${String(error)}`);
        if (this.faults.length > 20) return;
      }
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startMs);
      await sleep(SEND_EVERY_MS);
    }
    await client.close();
  }

  /** Everything that is there, from a connection of its own. */
  async check(): Promise<void> {
    const client = await connect({ brokers: [this.#address], connectTimeoutMs: 60_000 });
    let next = 0;
    for await (const { offset, value } of client.consumer({ topics: [TOPIC], untilEnd: true })) {
      const text = new TextDecoder().decode(value ?? new Uint8Array(0));
      const expected = this.#offsets.get(offset);
      if (offset !== next++ || expected !== text)
        this.faults.push(`offset ${offset} holds "${text.slice(0, 30)}", not "${expected?.slice(0, 30)}"`);
    }
    if (next !== this.#offsets.size)
      this.faults.push(`${next} records are there, ${this.#offsets.size} were acknowledged`);
    await client.close();
  }
}

async function main(address: string, nodePid: number): Promise<void> {
  const writer = new Writer(address);
  await writer.prepare();
  const prober = new Prober(address, nodePid);
  const working = Promise.all([prober.run(), writer.run()]);
  process.send?.({ kind: "begun" });
  await new Promise<void>((resolve) => {
    process.on("message", (message) => {
      if (message === "end") resolve();
    });
  });
  writer.isEnding = true;
  prober.end();
  await working;
  await writer.check().catch((error: unknown) => writer.faults.push(`cannot be read: ${String(error)}`));
  const { cut, slowestMs, slowestRawMs } = prober;
  const probeMs = prober.probeMs.toSorted((left, right) => left - right);
  const report: BystanderReport = {
    slowestProbeMs: slowestMs,
    slowestProbeRawMs: slowestRawMs,
    probes: probeMs.length,
    p99Ms: probeMs[Math.floor(probeMs.length * 0.99)] ?? Number.NaN,
    slowestSendMs: writer.slowestMs,
    acknowledged: writer.acknowledged,
    cut,
    faults: writer.faults.slice(0, 20),
  };
  process.send?.({ kind: "report", report }, undefined, {}, () => process.disconnect());
}

process.on("disconnect", () => process.exit());
const [address = "", nodePid = ""] = process.argv.slice(2);
await main(address, Number(nodePid));
