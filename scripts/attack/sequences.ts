// Peers with a memory: each goes through a few steps that belong together on one connection, in an order that makes little sense. What is answered must
// be an answer; where the rules say what it must be, that is checked, too.
import { setTimeout as sleep } from "node:timers/promises";
import { bytesEqual } from "../../src/base/bytes.ts";
import { createRng, type Rng } from "../../src/base/rng.ts";
import type { ProducerFields } from "../../src/model/record-batch.ts";
import { API, type ApiKey, type ApiTypes } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import type { DecodedResponse } from "../../src/wire/native/protocol.ts";
import { batch } from "./batches.ts";
import type { CaseRun } from "./case-run.ts";
import { repaired } from "./mutations.ts";
import { frame, RawPeer } from "./raw-peer.ts";
import { API_KEYS, sampleOf } from "./samples.ts";

/** An answer that the steps wait for: until the node has answered another one so often. Without one they go on. */
const PATIENT_ROUNDS = 20;
/** The broker's own patience with half a message is 10 s, looked at once a second; the rest is for a busy machine. */
const CUT_MS = 40_000;
const STEPS_MAX = 18;
/** So often it connects again and goes on with what it knows. */
const CUTS_MAX = 4;

export async function attackWithSequences(run: CaseRun): Promise<void> {
  await Promise.all(Array.from({ length: run.atOnce }, () => worker(run)));
}

async function worker(run: CaseRun): Promise<void> {
  for (let next = run.indices.next(); next.done !== true && !run.isOver(); next = run.indices.next()) {
    const name = `sequence:${next.value}`;
    run.underWay.add(name);
    const rng = createRng(run.seed).fork(name);
    const session = new Session(run, rng);
    try {
      await session.run();
    } finally {
      session.peer.destroy();
    }
    run.underWay.delete(name);
  }
}

interface Sent {
  readonly producer: ProducerFields;
  readonly bytes: Uint8Array;
  readonly entry: ApiTypes[3]["request"]["entries"][number];
  readonly isTaken: boolean;
}

type Step = (session: Session) => Promise<void> | void;

class Session {
  peer: RawPeer;
  readonly #run: CaseRun;
  readonly #rng: Rng;
  #id = 0;
  #producer: ProducerFields = { producerId: -1, producerEpoch: -1, baseSequence: -1 };
  #last: Sent | undefined;
  #sessionId = 0;

  constructor(run: CaseRun, rng: Rng) {
    this.#run = run;
    this.#rng = rng;
    this.peer = new RawPeer(run.address, run.counts);
  }

  async run(): Promise<void> {
    if (!this.#rng.chance(0.05)) await this.#hello();
    let cuts = 0;
    for (let left = this.#rng.between(3, STEPS_MAX); left > 0 && !this.#run.isOver(); left--) {
      if (this.peer.closeReason !== undefined) {
        if (++cuts > CUTS_MAX) break;
        this.peer = new RawPeer(this.#run.address, this.#run.counts);
        await this.#hello();
      }
      await this.#rng.pick(STEPS)(this);
    }
    this.#run.counts.add(cuts > CUTS_MAX ? "sequence cut" : "sequence to its end");
  }

  get #next(): number {
    return ++this.#id;
  }

  async #hello(): Promise<void> {
    await this.#call(API.HELLO, { clientId: this.#rng.pick(["attacker", "node 9", "node 1"]), software: "attack 1" });
  }

  async #call<K extends ApiKey>(
    api: K,
    request: ApiTypes[K]["request"],
    bodies: readonly Uint8Array[] = [],
  ): Promise<DecodedResponse | undefined> {
    const correlationId = this.#next;
    const answer = this.peer.answerTo(correlationId);
    this.peer.send(encodeRequest({ api, version: 0, correlationId, deadlineMs: 1_000 }, request, bodies));
    const silent = this.peer.upgraded.then(() => this.#run.control.rounds(PATIENT_ROUNDS));
    return Promise.race([answer, silent.then(() => undefined)]);
  }

  async getsAnId(): Promise<void> {
    const name = this.#rng.chance(0.3) ? `name-${this.#rng.below(20)}` : null;
    const answer = await this.#call(API.INIT_PRODUCER_ID, { name, producerId: -1, producerEpoch: -1 });
    if (answer === undefined || answer.header.error !== "NONE") return;
    this.#producer = { ...(answer.response as ApiTypes[47]["response"]), baseSequence: 0 };
    this.#last = undefined;
  }

  /** In its turn, or with a gap, in an older or a newer epoch, or under an id that was never given. */
  async produces(): Promise<void> {
    const { producerId, producerEpoch, baseSequence } = this.#producer;
    const odd: readonly ProducerFields[] = [
      { producerId, producerEpoch, baseSequence: baseSequence + 7 },
      { producerId, producerEpoch: producerEpoch - 1, baseSequence },
      { producerId, producerEpoch: producerEpoch + 1, baseSequence: 0 },
      { producerId: this.#run.known.producerId + this.#rng.below(3_000), producerEpoch: 0, baseSequence: 0 },
    ];
    const isOdd = producerId >= 0 && this.#rng.chance(0.4);
    const producer = isOdd ? this.#rng.pick(odd) : this.#producer;
    const records = this.#rng.between(1, 3);
    const bytes = batch(this.#rng, { records, producer });
    const { topicId, partitions } = this.#rng.pick(this.#run.known.topics);
    const entry = this.#last?.entry ?? {
      topicId,
      partition: this.#rng.below(partitions),
      leaderEpoch: -1,
      isResent: false,
    };
    const isTaken = (await this.#produce(entry, bytes)) === "NONE" && producer.producerId >= 0;
    if (!isTaken) return;
    this.#last = { producer, bytes, entry, isTaken };
    this.#producer = { ...producer, baseSequence: producer.baseSequence + records };
  }

  async #produce(entry: Sent["entry"], bytes: Uint8Array, isResent = false): Promise<string | undefined> {
    const answer = await this.#call(API.PRODUCE, { acks: -1, timeoutMs: 1_000, entries: [{ ...entry, isResent }] }, [
      bytes,
    ]);
    const response = answer?.response as ApiTypes[3]["response"] | null | undefined;
    return response?.entries[0]?.error;
  }

  async sendsAgain(): Promise<void> {
    const last = this.#last;
    if (last === undefined) return;
    const error = await this.#produce(last.entry, last.bytes, this.#rng.chance(0.5));
    // Others write under the same ids: then it is no longer in the window, or of an older epoch.
    if (error !== undefined) this.#run.counts.add(`again ${error}`);
  }

  /** The numbers of a batch that was taken, and other records: that is no duplicate of anything. */
  async sendsOtherRecords(): Promise<void> {
    const last = this.#last;
    if (last === undefined) return;
    const records = 1 + (last.bytes[26] ?? 0);
    const another = (): Uint8Array => batch(this.#rng, { records, valueBytes: 60, producer: last.producer });
    let other = another();
    // One record without a key and a value is what the other may have been (seed 798726086).
    while (bytesEqual(other, last.bytes)) other = another();
    const error = await this.#produce(last.entry, other, this.#rng.chance(0.5));
    if (error === undefined) return;
    this.#run.counts.add(`other content ${error}`);
    if (error === "NONE")
      this.#run.counts.faults.push("other records under the numbers of a batch that is there were acknowledged");
  }

  async fetches(): Promise<void> {
    const { topicId, partitions } = this.#rng.pick(this.#run.known.topics);
    const entry = {
      topicId,
      partition: this.#rng.below(partitions),
      leaderEpoch: -1,
      offset: this.#rng.below(40),
      maxBytes: 65_536,
    };
    const request = {
      maxWaitMs: this.#rng.pick([0, 20, 2_000]),
      minBytes: this.#rng.pick([1, 100_000]),
      maxBytes: 65_536,
      entries: [entry],
    };
    const call = this.#call(API.FETCH, request);
    if (this.#rng.chance(0.5)) await call;
  }

  /** A session of replica fetches in the name of a node, which rises and falls as no follower's does. */
  async replicates(): Promise<void> {
    const { known } = this.#run;
    this.#sessionId += this.#rng.pick([-1, 0, 1, 5]);
    const sessionId = Math.max(0, this.#sessionId);
    const name = {
      nodeId: this.#rng.pick([9, known.nodeId]) as never,
      brokerEpoch: this.#rng.pick([known.brokerEpoch, 1]),
      sessionId,
    };
    const { topicId } = this.#rng.pick(known.topics);
    const slot = this.#rng.below(3);
    const request = {
      ...name,
      maxWaitMs: 20,
      maxBytes: 65_536,
      added: [{ slot, topicId, partition: 0 }],
      positions: [slot, 0, this.#rng.below(30), -1],
      removed: this.#rng.chance(0.3) ? [slot] : [],
    };
    await this.#call(API.REPLICA_FETCH, request);
    this.peer.send(
      encodeRequest(
        { api: API.DURABLE_REPORT, version: 0, correlationId: this.#next, deadlineMs: 0 },
        { ...name, rows: [slot, 0, this.#rng.pick([0, 10, 2 ** 40])] },
        [],
      ),
    );
  }

  /** Several requests at once, sound or repaired, some under one number, in no order. */
  async floods(): Promise<void> {
    const all = Array.from({ length: this.#rng.between(2, 12) }, () => {
      const correlationId = this.#rng.chance(0.9) ? this.#next : this.#id;
      const sound = sampleOf(this.#rng.pick(API_KEYS), this.#run.known, { rng: this.#rng, correlationId });
      return this.#rng.chance(0.3) ? repaired(sound, this.#rng) : sound;
    });
    for (const messages of all) this.peer.send(messages);
    await this.#call(API.LIST_OFFSETS, { entries: [] });
  }

  #announced(sizeBytes: number): readonly Uint8Array[] {
    const entries = [
      { topicId: this.#run.known.topics[0]?.topicId as never, partition: 0, leaderEpoch: -1, isResent: false },
    ];
    return encodeRequest(
      { api: API.PRODUCE, version: 0, correlationId: this.#next, deadlineMs: 1_000 },
      { acks: -1, timeoutMs: 1_000, entries },
      [new Uint8Array(sizeBytes)],
    );
  }

  /** A body is owed and does not come, or something else does. */
  async owes(): Promise<void> {
    const [envelope, body] = this.#announced(this.#rng.pick([10_000, 200_000, 1_000_000]));
    if (envelope === undefined || body === undefined) return;
    this.peer.send([envelope]);
    switch (this.#rng.below(5)) {
      case 0:
        this.peer.sendRaw(frame(body).subarray(0, body.length / 2));
        return this.#leaves();
      case 1:
        return this.peer.send([body.subarray(1)]);
      case 2:
        this.peer.sendRaw(frame(body.subarray(0, 5_000), { isFinal: false }));
        return this.peer.sendRaw(frame(body.subarray(5_000), { opcode: 0 }));
      case 3: {
        if (this.#rng.chance(0.4)) return this.fetches();
        if (this.#rng.chance(0.8)) return this.#leaves();
        await this.#isCut();
        if (this.peer.closeReason === undefined)
          this.#run.counts.faults.push(`a body was owed for ${CUT_MS} ms, and the connection was not cut`);
        return;
      }
      default:
        return this.peer.send([body]);
    }
  }

  /** Without a word, and not at once. */
  async #leaves(): Promise<void> {
    await this.#run.control.rounds(1 + this.#rng.below(3));
    this.peer.destroy();
  }

  async #isCut(): Promise<void> {
    const patience = new AbortController();
    await Promise.race([
      this.peer.closed,
      sleep(CUT_MS, undefined, { signal: patience.signal }).catch(() => undefined),
    ]);
    patience.abort();
  }

  /** Frames that a client of this protocol does not send. */
  frames(): void {
    const payload = new Uint8Array(this.#rng.below(200));
    this.#rng.fill(payload);
    const isFinal = this.#rng.chance(0.7);
    this.peer.sendRaw(frame(payload, { opcode: this.#rng.pick([0, 1, 2, 3, 8, 9, 9, 10, 10, 11]), isFinal }));
  }

  async helloAgain(): Promise<void> {
    await this.#hello();
  }

  /** Reads nothing of a few answers for a while. */
  async isDeaf(): Promise<void> {
    this.peer.pause();
    for (let left = 8; left > 0; left--)
      this.peer.send(
        encodeRequest(
          { api: API.METADATA, version: 0, correlationId: this.#next, deadlineMs: 0 },
          { topics: null, after: null, barrier: false },
          [],
        ),
      );
    await sleep(this.#rng.below(200));
    this.peer.destroy();
  }
}

const STEPS: readonly Step[] = [
  (session) => session.getsAnId(),
  (session) => session.produces(),
  (session) => session.produces(),
  (session) => session.produces(),
  (session) => session.sendsAgain(),
  (session) => session.sendsAgain(),
  (session) => session.sendsOtherRecords(),
  (session) => session.fetches(),
  (session) => session.fetches(),
  (session) => session.replicates(),
  (session) => session.floods(),
  (session) => session.floods(),
  (session) => session.owes(),
  (session) => session.frames(),
  (session) => session.helloAgain(),
  (session) => session.isDeaf(),
];
