// B1: a client that does what a broken one might, by the protocol's own bytes: it goes by metadata of long ago, asks whoever it likes, repeats
// requests, leaves gaps in its sequence, goes on in an epoch that it gave up, numbers what must have no numbers, breaks messages off and walks away
// from its sockets. What it may not get it must be refused; what it repeats must be answered as before; and nobody else may notice.
import type { Rng } from "../../base/rng.ts";
import { RecordBatchBuilder } from "../../model/records.ts";
import { OttlaError } from "../../model/errors.ts";
import { API, type MetadataResponse, type ProduceResponse } from "../../wire/native/apis.ts";
import { outcomeOfRefusal } from "../../client/outcomes.ts";
import { MARK } from "../marks.ts";
import { type Incarnation } from "../world.ts";
import type { ClientParts } from "./client-life.ts";
import { RawLink } from "./raw-link.ts";
import { historyOf, makeRecord } from "../../checkers/named-records.ts";

/** Mean pause between two misdeeds. */
const THINK_MS = 120;
const WAIT_MS = 1500;
const RECORDS_MAX = 3;
/** Of the five that a broker must know again (P-2) one may be in doubt: it may be there, and have put an older one out. */
const KNOWN_AGAIN = 4;
/** Further than any sequence of a run gets. */
const GAP = 10_000;

interface Place {
  readonly topic: string;
  readonly topicId: MetadataResponse["topics"][number]["topicId"];
  readonly partition: number;
  readonly leader: number;
  readonly leaderEpoch: number;
}

/** A batch of this client, as it was made once and for all. */
interface RawBatch {
  readonly place: Place;
  readonly bytes: Uint8Array;
  readonly operations: readonly number[];
  readonly recordCount: number;
  readonly baseSequence: number;
  /** Requests that carried it. */
  sends: number;
  /** Where it was said to begin. */
  baseOffset: number | undefined;
}

/** One producer id and epoch; its sequence in one partition. */
interface Lane {
  next: number;
  /** Of unknown outcome: the next to be sent, again and again. */
  doubtful: RawBatch | undefined;
  /** The last ones that were acknowledged, the newest last. */
  readonly acknowledged: RawBatch[];
}

interface Session {
  readonly process: string;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly lanes: Map<string, Lane>;
}

type Entry = ProduceResponse["entries"][number];
type Taken = Entry & { readonly error: "NONE" };
type ProduceAnswer = Entry | OttlaError | undefined;

export class BadClient {
  isStopping = false;
  readonly name: string;
  readonly #parts: ClientParts;
  readonly #rng: Rng;
  readonly #forging: Rng;
  readonly #owner: Incarnation;
  readonly #isNamed: boolean;
  readonly #mayBeForgotten: boolean;
  readonly #links = new Map<string, RawLink>();
  #metadata: MetadataResponse | undefined;
  #session: Session | undefined;
  #sessions = 0;
  #sequence = 0;

  /** `mayBeForgotten`: a broker whose clock is wrong may take a producer for one that has expired. */
  constructor(name: string, parts: ClientParts, { mayBeForgotten }: { readonly mayBeForgotten: boolean }) {
    this.name = name;
    this.#parts = parts;
    this.#mayBeForgotten = mayBeForgotten;
    this.#rng = parts.world.fork(`misdeeds of ${name}`);
    this.#forging = this.#rng.fork("forged batches");
    this.#owner = parts.world.startIncarnation(name);
    this.#isNamed = this.#rng.chance(0.5);
  }

  /** Until `isStopping`; every step of it is bounded. */
  async run(): Promise<void> {
    while (!this.isStopping) {
      await this.#wait(-Math.log((this.#rng.u32() + 1) / 2 ** 32) * THINK_MS);
      if (!this.isStopping) await this.#act();
    }
    for (const link of this.#links.values()) link.drop();
  }

  async #act(): Promise<void> {
    if (this.#metadata === undefined || this.#rng.chance(0.2)) await this.#look();
    const session = (this.#session ??= await this.#begin(-1, -1));
    const place = this.#anyPlace();
    if (session === undefined || place === undefined) return;
    const acts = [
      () => this.#send(session, place),
      () => this.#send(session, place),
      () => this.#again(session, place),
      () => this.#twice(session, place),
      () => this.#gap(session, place),
      () => this.#oldEpoch(session, place),
      () => this.#numbered(session, place),
      () => this.#abandon(session, place),
      () => this.#half(session, place),
    ];
    await this.#rng.pick(acts)();
  }

  // --- what it does

  /** The next batch of its lane, or the one of unknown outcome. */
  async #send(session: Session, place: Place): Promise<void> {
    const lane = laneOf(session, place);
    const batch = lane.doubtful ?? this.#make(session, place, lane.next);
    lane.doubtful = batch;
    this.#heard(session, { lane, batch }, await this.#produce(await this.#linkFor(place), batch, place));
  }

  /** One that was acknowledged not long ago: the answer must be the same. */
  async #again(session: Session, place: Place): Promise<void> {
    const lane = laneOf(session, place);
    if (lane.acknowledged.length === 0) return this.#send(session, place);
    const batch = this.#rng.pick(lane.acknowledged);
    const isForged = this.#forging.chance(0.35);
    // Of a batch that compaction changed the numbers alone decide, whatever is sent under them (B-10); and who is forgotten begins anew with them (D-15).
    const mayPass = this.#mayBeForgotten || this.#parts.board.isCompacted(place.topic);
    if (isForged && !mayPass) return this.#forge(session, batch);
    this.#heardAgain(session, batch, await this.#produce(await this.#linkFor(place), batch, place));
  }

  /** Other records under the numbers of what was acknowledged. */
  async #forge(session: Session, { place, recordCount, baseSequence }: RawBatch): Promise<void> {
    const batch = this.#make(session, place, baseSequence, recordCount);
    await this.#mustFail(batch, { invariant: 23, what: "other records under the numbers of an acknowledged batch" });
  }

  /** Two copies, one behind the other, by one way or by two. */
  async #twice(session: Session, place: Place): Promise<void> {
    const lane = laneOf(session, place);
    const batch = lane.doubtful ?? this.#make(session, place, lane.next);
    lane.doubtful = batch;
    const first = await this.#linkFor(place);
    const second = this.#rng.chance(0.5) ? first : await this.#linkFor(place);
    const answers = await Promise.all([this.#produce(first, batch, place), this.#produce(second, batch, place)]);
    const oks = answers.filter(isOk);
    this.#heard(
      session,
      { lane, batch },
      oks[0] ?? answers.find((answer) => outcomeOf(answer) === "unknown") ?? answers[0],
    );
    for (const other of oks.slice(1)) this.#heardAgain(session, batch, other);
  }

  /** A sequence that leaves others out. */
  async #gap(session: Session, place: Place): Promise<void> {
    const batch = this.#make(session, place, laneOf(session, place).next + GAP + this.#rng.below(GAP));
    await this.#mustFail(batch, { invariant: 22, what: "a batch behind a gap in its sequence" });
  }

  /** A name takes a higher epoch, and goes on in the lower one. An unnamed producer has no epoch but its own: it begins anew. */
  async #oldEpoch(session: Session, place: Place): Promise<void> {
    const given = this.#isNamed ? [session.producerId, session.producerEpoch] : [-1, -1];
    const next = await this.#begin(given[0] ?? -1, given[1] ?? -1);
    this.#session = next;
    if (next === undefined || !this.#isNamed) return;
    const batch = this.#make(session, place, laneOf(session, place).next + 1);
    await this.#mustFail(batch, { invariant: 24, what: `a batch of epoch ${session.producerEpoch}, given up before` });
  }

  /** Numbers in a batch that asks for less than acks=all (D-28). */
  async #numbered(session: Session, place: Place): Promise<void> {
    const acks = this.#rng.chance(0.5) ? 1 : 0;
    const batch = this.#make(session, place, laneOf(session, place).next);
    await this.#mustFail(batch, { invariant: 22, what: `a numbered batch with acks=${acks}` }, acks);
  }

  /** The socket is left before the answer; the batch is in doubt. */
  async #abandon(session: Session, place: Place): Promise<void> {
    const lane = laneOf(session, place);
    const batch = lane.doubtful ?? this.#make(session, place, lane.next);
    lane.doubtful = batch;
    const link = await this.#linkFor(place);
    if (link === undefined) return;
    void this.#produce(link, batch, place);
    await this.#wait(this.#rng.below(20));
    link.drop();
    this.#did("left a socket");
  }

  /** A message without its end: nothing of it may count. */
  async #half(session: Session, place: Place): Promise<void> {
    const link = await this.#linkFor(place);
    const batch = this.#make(session, place, laneOf(session, place).next);
    const made = link?.messagesOf(callOf(batch, place, -1), WAIT_MS);
    if (link === undefined || made === undefined) return this.#failed(batch);
    const [envelope] = made.messages;
    if (envelope === undefined) return;
    const half = envelope.slice(0, 1 + this.#rng.below(envelope.length - 1));
    if (this.#rng.chance(0.3)) this.#rng.fill(half);
    link.send([half]);
    this.#failed(batch);
    await this.#wait(this.#rng.below(50));
    if (this.#rng.chance(0.5)) link.drop();
    this.#did("sent half a message");
  }

  // --- answers

  #heard(session: Session, { lane, batch }: { lane: Lane; batch: RawBatch }, answer: ProduceAnswer): void {
    const outcome = outcomeOf(answer);
    if (isOk(answer)) {
      this.#did("had a batch appended");
      batch.baseOffset = answer.baseOffset;
      this.#record("send ok", batch);
      lane.doubtful = undefined;
      lane.next += batch.recordCount;
      lane.acknowledged.push(batch);
      if (lane.acknowledged.length > KNOWN_AGAIN) lane.acknowledged.shift();
      return;
    }
    if (answer instanceof OttlaError || answer === undefined || outcome !== "not appended") return;
    this.#did(`was refused: ${answer.error}`);
    // What another try of it did is not known from a refusal, unless this says so itself.
    if (answer.error === "PRODUCER_FENCED" || answer.error === "INVALID_PRODUCER_EPOCH") this.#forget(session);
    if (answer.error === "OUT_OF_ORDER_SEQUENCE_NUMBER" || answer.error === "UNKNOWN_PRODUCER_ID")
      this.#forget(session);
  }

  /** A batch that was acknowledged was sent once more. */
  #heardAgain(session: Session, batch: RawBatch, answer: ProduceAnswer): void {
    const { place, operations } = batch;
    const { world, record } = this.#parts;
    if (isOk(answer)) {
      this.#parts.world.sometimes(MARK.ANSWERED_AGAIN);
      operations.forEach((operation, at) => {
        record({ type: "send repeated", timeMs: world.nowMs, operation, offset: answer.baseOffset + at });
      });
      return;
    }
    if (answer === undefined || answer instanceof OttlaError) return;
    this.#did(`was refused again: ${answer.error}`);
    if (answer.error === "OUT_OF_ORDER_SEQUENCE_NUMBER" || answer.error === "UNKNOWN_PRODUCER_ID") {
      const message = `a batch that was acknowledged at ${batch.baseOffset} and sent again is refused: ${answer.error}`;
      if (!this.#mayBeForgotten || answer.error !== "UNKNOWN_PRODUCER_ID")
        this.#judge(place, { invariant: 23, message });
      this.#forget(session);
    }
  }

  /** This batch must not be taken, whatever the answer. */
  async #mustFail(
    batch: RawBatch,
    why: { readonly invariant: number; readonly what: string },
    acks = -1,
  ): Promise<void> {
    const { place } = batch;
    this.#failed(batch);
    const answer = await this.#produce(await this.#linkFor(place), batch, place, acks);
    if (isOk(answer)) this.#judge(place, { invariant: why.invariant, message: `${why.what} is acknowledged` });
    else if (answer !== undefined) this.#did(`was refused ${why.what.split(",")[0] ?? ""}`.replace(/\d+/g, "N"));
  }

  #judge(
    { topic, partition }: Place,
    { invariant, message }: { readonly invariant: number; readonly message: string },
  ) {
    const { world, record } = this.#parts;
    record({ type: "verdict", timeMs: world.nowMs, process: this.name, topic, partition, invariant, message });
  }

  /** What is in doubt stays in doubt for ever. */
  #forget(session: Session): void {
    for (const { doubtful } of session.lanes.values())
      if (doubtful !== undefined) this.#record("send unknown", doubtful);
    if (this.#session === session) this.#session = undefined;
  }

  // --- asking

  async #produce(link: RawLink | undefined, batch: RawBatch, place: Place, acks = -1): Promise<ProduceAnswer> {
    const call = callOf(batch, this.#rng.chance(0.3) ? { ...place, leaderEpoch: -1 } : place, acks);
    const answer = await link?.call(call, acks === 0 ? 100 : WAIT_MS);
    return answer === undefined || answer instanceof OttlaError ? answer : answer.entries[0];
  }

  /** Mostly whom it takes for the leader; now and then somebody else. */
  async #linkFor({ leader }: Place): Promise<RawLink | undefined> {
    return this.#linkTo(this.#rng.chance(0.15) ? undefined : leader);
  }

  async #linkTo(nodeId: number | undefined): Promise<RawLink | undefined> {
    const known = this.#metadata?.brokers.find((broker) => broker.nodeId === nodeId)?.address;
    const address = (known ?? this.#rng.pick(this.#parts.brokers)).replace(/^ws:\/\//, "");
    const open = this.#links.get(address);
    if (open !== undefined && !open.isClosed && this.#rng.chance(0.95)) return open;
    const { world, network } = this.#parts;
    const link = await RawLink.open(address, { world, network, owner: this.#owner });
    if (link !== undefined) this.#links.set(address, link);
    return link;
  }

  async #look(): Promise<void> {
    const link = await this.#linkTo(undefined);
    const request = { topics: null, after: null, barrier: false };
    const answer = await link?.call({ api: API.METADATA, request }, WAIT_MS);
    if (answer !== undefined && !(answer instanceof OttlaError)) this.#metadata = answer;
  }

  async #begin(producerId: number, producerEpoch: number): Promise<Session | undefined> {
    const link = await this.#linkTo(this.#isNamed ? this.#metadata?.controllerId : undefined);
    const request = { name: this.#isNamed ? this.name : null, producerId, producerEpoch };
    const answer = await link?.call({ api: API.INIT_PRODUCER_ID, request }, WAIT_MS);
    if (answer === undefined) return undefined;
    if (answer instanceof OttlaError) {
      this.#did(`was given no id: ${answer.code}`);
      if (answer.code === "NOT_CONTROLLER") this.#metadata = undefined;
      return undefined;
    }
    return { process: `${this.name}.${this.#sessions++}`, ...answer, lanes: new Map() };
  }

  #anyPlace(): Place | undefined {
    const { board, isLost } = this.#parts;
    const places = (this.#metadata?.topics ?? []).flatMap(({ name, topicId, partitions }) =>
      board.has(name)
        ? partitions.map(({ index, leader, leaderEpoch }) => ({
            topic: name,
            topicId,
            partition: index,
            leader,
            leaderEpoch,
          }))
        : [],
    );
    const left = places.filter((place) => !isLost(place));
    return left.length === 0 ? undefined : this.#rng.pick(left);
  }

  // --- batches

  #make(session: Session, place: Place, baseSequence: number, count?: number): RawBatch {
    const { world, codecs, record, nextOperation } = this.#parts;
    const { topic, partition } = place;
    const { process, producerId, producerEpoch } = session;
    const builder = new RecordBatchBuilder({ limitBytes: 1 << 16 });
    const recordCount = count ?? this.#rng.between(1, RECORDS_MAX);
    const isKeyed = this.#parts.board.isCompacted(topic);
    const operations = Array.from({ length: recordCount }, () => {
      const operation = nextOperation();
      const timestamp = world.startWallMs + Math.floor(world.nowMs);
      const identity = { producer: process, sequence: this.#sequence++, partition };
      const options = { valueBytesMax: 40, timestamp, checksum: world.checksum, isKeyed };
      const made = makeRecord(this.#rng, identity, options);
      builder.tryAppend(made.input);
      const what = { process, topic, partition, acks: "all", isNumbered: true, ...historyOf(made) } as const;
      record({ type: "send invoked", timeMs: world.nowMs, operation, ...what });
      return operation;
    });
    const producer = { producerId, producerEpoch, baseSequence };
    const bytes = builder.build({ compression: "none", codecs, checksum: world.checksum, producer });
    return { place, bytes, operations, recordCount, baseSequence, sends: 0, baseOffset: undefined };
  }

  #failed(batch: RawBatch): void {
    this.#record("send failed", batch);
  }

  #record(type: "send ok" | "send failed" | "send unknown", { operations, baseOffset }: RawBatch): void {
    const { world, record } = this.#parts;
    operations.forEach((operation, at) => {
      const offset = type === "send ok" && baseOffset !== undefined ? baseOffset + at : undefined;
      record({ type, timeMs: world.nowMs, operation, offset });
    });
  }

  #did(what: string): void {
    this.#parts.world.sometimes(`a bad client ${what}`);
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#parts.world.schedule({ delayMs, kind: "misdeed", owner: this.#owner }, resolve);
    });
  }
}

function callOf(batch: RawBatch, { topicId, partition, leaderEpoch }: Place, acks: number) {
  const isResent = batch.sends++ > 0;
  const request = { acks, timeoutMs: WAIT_MS, entries: [{ topicId, partition, leaderEpoch, isResent }] };
  return { api: API.PRODUCE, request, bodies: [batch.bytes] };
}

function laneOf({ lanes }: Session, { topic, partition }: Place): Lane {
  const key = `${topic}-${partition}`;
  let lane = lanes.get(key);
  if (lane === undefined) {
    lane = { next: 0, doubtful: undefined, acknowledged: [] };
    lanes.set(key, lane);
  }
  return lane;
}

function isOk(answer: ProduceAnswer): answer is Taken {
  return answer !== undefined && !(answer instanceof OttlaError) && answer.error === "NONE";
}

function outcomeOf(answer: ProduceAnswer): "not appended" | "unknown" | "appended" {
  if (answer === undefined) return "unknown";
  return answer instanceof OttlaError ? outcomeOfRefusal(answer.code) : answer.outcome;
}
