// A crowd in a process of its own: peers that ask for much and take almost nothing, peers that only hold a connection, and one that produces the
// largest batches there may be, one after the other.
//
// What it is told and tells: see crowd-answers.ts.
import { setTimeout as sleep } from "node:timers/promises";
import { createRng } from "../../src/base/rng.ts";
import type { TopicId } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { batch } from "./batches.ts";
import { answerCrowd, type Gathering } from "./crowd-answers.ts";
import { Counts, openPeers, RawPeer } from "./raw-peer.ts";

const FETCHES_EACH = 8;
const FETCH_BYTES = 4 * 1024 * 1024;
/** Slow, not dead: each takes what its socket holds so often. */
const SIP_EVERY_MS = 2_000;
const HELLO_ID = 1;

export interface CrowdPlan {
  readonly address: string;
  readonly topicId: TopicId;
  readonly slow: number;
  readonly idle: number;
  readonly batchBytes: number;
}

class Crowd implements Gathering {
  readonly #plan: CrowdPlan;
  readonly #counts = new Counts();
  #slow: RawPeer[] = [];
  #idle: RawPeer[] = [];
  #producing: Promise<void> = Promise.resolve();
  #isGathered = false;
  #cutBefore = 0;
  produced = 0;

  constructor(plan: CrowdPlan) {
    this.#plan = plan;
  }

  /** Connections that ended by themselves. */
  get cut(): number {
    const ended = [...this.#slow, ...this.#idle].filter(({ closeReason }) => closeReason !== undefined);
    return this.#cutBefore + ended.length;
  }

  async gather(): Promise<void> {
    const { slow, idle } = this.#plan;
    this.#isGathered = true;
    this.#idle = await openPeers(idle, () => this.#hello());
    this.#slow = await openPeers(slow, () => this.#hello());
    for (const peer of this.#slow) {
      peer.pause();
      for (let id = 2; id < 2 + FETCHES_EACH; id++) peer.send(this.#fetch(id));
    }
    void this.#sip();
    this.#producing = this.#produce();
  }

  async disperse(): Promise<void> {
    this.#isGathered = false;
    await this.#producing;
    this.#cutBefore = this.cut;
    for (const peer of [...this.#slow, ...this.#idle]) peer.destroy();
    this.#slow = [];
    this.#idle = [];
  }

  async #hello(): Promise<RawPeer> {
    const peer = new RawPeer(this.#plan.address, this.#counts);
    const answered = peer.answerTo(HELLO_ID);
    const header = { api: API.HELLO, version: 0, correlationId: HELLO_ID, deadlineMs: 0 } as const;
    peer.send(encodeRequest(header, { clientId: "crowd", software: "attack 1" }, []));
    if ((await answered) === undefined) throw new Error(`a connection of the crowd ended: ${peer.closeReason}`);
    return peer;
  }

  #fetch(correlationId: number): Uint8Array[] {
    const entry = { topicId: this.#plan.topicId, partition: 0, leaderEpoch: -1, offset: 0, maxBytes: FETCH_BYTES };
    const header = { api: API.FETCH, version: 0, correlationId, deadlineMs: 60_000 } as const;
    return encodeRequest(header, { maxWaitMs: 0, minBytes: 1, maxBytes: FETCH_BYTES, entries: [entry] }, []);
  }

  async #sip(): Promise<void> {
    while (this.#isGathered) {
      await sleep(SIP_EVERY_MS / 20);
      const peer = this.#slow[Math.floor((performance.now() / 100) % this.#slow.length)];
      peer?.resume();
      await sleep(1);
      peer?.pause();
    }
  }

  async #produce(): Promise<void> {
    const peer = await this.#hello();
    const body = batch(createRng(1), { records: 8, valueBytes: this.#plan.batchBytes / 8, isWhole: true });
    const entries = [{ topicId: this.#plan.topicId, partition: 0, leaderEpoch: -1, isResent: false }];
    for (let correlationId = 2; this.#isGathered && peer.closeReason === undefined; correlationId++) {
      const answered = peer.answerTo(correlationId);
      const header = { api: API.PRODUCE, version: 0, correlationId, deadlineMs: 30_000 } as const;
      peer.send(encodeRequest(header, { acks: -1, timeoutMs: 30_000, entries }, [body]));
      await answered;
      this.produced++;
    }
    peer.destroy();
  }
}

answerCrowd(new Crowd(JSON.parse(process.argv[2] ?? "{}") as CrowdPlan));
