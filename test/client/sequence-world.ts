// A producer's numbers, a partition that keeps the rules of producers, and connections that lose answers, are cut, and whose last requests arrive
// late. Commits lag behind appends; a new leader may lack what was not committed.
import type { Rng } from "../../src/base/rng.ts";
import { type ProducerIdentity, Sequences, type Slot, type Stamp } from "../../src/client/sequences.ts";
import type { Outcome } from "../../src/model/errors.ts";
import { PRODUCERS_MAX, ProducerTable } from "../../src/model/producer-table.ts";

interface Item {
  readonly index: number;
  readonly recordCount: number;
  slot: Slot<Item> | undefined;
  request: Request | undefined;
  told: { readonly outcome: Outcome; readonly offset?: number } | undefined;
}

interface Request {
  readonly item: Item;
  readonly stamp: Stamp;
  readonly isResent: boolean;
}

/** Requests in order; the producer has left it when `isLeft`, what is in it may be looked at still. */
interface Pipe {
  requests: Request[];
  isLeft: boolean;
}

interface Entry extends Request {
  readonly baseOffset: number;
  readonly endOffset: number;
}

interface Waiter {
  readonly request: Request;
  readonly baseOffset: number;
  readonly endOffset: number;
}

export class SequenceWorld {
  readonly seen = { ok: 0, unknown: 0, notAppended: 0, duplicates: 0, epochs: 0, late: 0, forgotten: 0 };
  readonly #rng: Rng;
  readonly #sequences = new Sequences<Item>();
  readonly #items: Item[] = [];
  #queue: Item[] = [];
  #pipe: Pipe = { requests: [], isLeft: false };
  #pipes: Pipe[] = [this.#pipe];
  /** Of others that write, too, where the partition forgets soon. */
  #otherId = 1;
  readonly #isForgetful: boolean;
  readonly #table: ProducerTable;
  #log: Entry[] = [];
  #highWatermark = 0;
  #waiters: Waiter[] = [];
  /** The leader takes nothing. */
  #isRefusing = false;
  #identity: ProducerIdentity = { producerId: 1, producerEpoch: 0 };

  constructor(rng: Rng, most = PRODUCERS_MAX) {
    this.#rng = rng;
    this.#isForgetful = most < PRODUCERS_MAX;
    this.#table = new ProducerTable(0, most);
  }

  get open(): number {
    return this.#items.filter(({ told }) => told === undefined).length;
  }

  event(): void {
    if (this.#isForgetful && this.#rng.chance(0.1)) return this.#other();
    const chance = this.#rng.below(100);
    if (chance < 30) this.#send();
    else if (chance < 60) this.#handle(this.#rng.pick(this.#pipes));
    else if (chance < 75) this.#commit();
    else if (chance < 82) this.#add();
    else if (chance < 86) this.#isRefusing = this.#rng.chance(0.5);
    else if (chance < 90) this.#loseAnswers();
    else if (chance < 93) this.#cut();
    else if (chance < 96) this.#elect();
    else this.#expire();
  }

  /** Nothing goes wrong from now on; what was left in old connections comes first or last. */
  settle(): void {
    this.#isRefusing = false;
    for (let round = 0; round < 300; round++) {
      this.#send();
      for (const pipe of this.#pipes) if (!pipe.isLeft || this.#rng.chance(0.1)) this.#handle(pipe);
      this.#commit();
      if (round % 20 === 19) this.#cut();
    }
    for (const pipe of this.#pipes) while (pipe.requests.length > 0) this.#handle(pipe);
  }

  /** What must not be. */
  faults(): string[] {
    const faults: string[] = [];
    const copies = new Map<Item, number>();
    let last = -1;
    for (const { item, baseOffset } of this.#log) {
      copies.set(item, (copies.get(item) ?? 0) + 1);
      if (item.index < last) faults.push(`out of order: ${item.index} after ${last} at ${baseOffset}`);
      last = item.index;
    }
    for (const item of this.#items) {
      const count = copies.get(item) ?? 0;
      if (count > 1) faults.push(`twice: ${item.index}`);
      if (item.told?.outcome === "not appended" && count > 0)
        faults.push(`there, and told not appended: ${item.index}`);
      if (item.told?.outcome !== "appended") continue;
      const isThere = this.#log.some((entry) => entry.item === item && entry.baseOffset === item.told?.offset);
      if (!isThere) faults.push(`not at the offset that was told: ${item.index}`);
    }
    return faults;
  }

  #add(): void {
    const item = {
      index: this.#items.length,
      recordCount: 1 + this.#rng.below(4),
      slot: undefined,
      request: undefined,
      told: undefined,
    };
    this.#items.push(item);
    this.#queue.push(item);
  }

  #other(): void {
    const baseOffset = this.#table.endOffset;
    const producerId = ++this.#otherId;
    this.#table.observe({ producerId, producerEpoch: 0, baseSequence: 0, baseOffset, lastOffset: baseOffset, crc: 0 });
  }

  #send(): void {
    const step = this.#sequences.next();
    switch (step.kind) {
      case "hold":
        return;
      case "restart": {
        const isFirst = this.#sequences.identity === undefined;
        if (!isFirst) this.#identity = { ...this.#identity, producerEpoch: this.#identity.producerEpoch + 1 };
        this.#free(this.#sequences.restart(this.#identity));
        if (!isFirst) this.seen.epochs++;
        return;
      }
      case "again":
        this.#sequences.again(step.slot);
        return this.#transmit(step.slot.item);
      case "new": {
        const [item] = this.#queue;
        if (item === undefined) return;
        item.slot = this.#sequences.begin(item, item.recordCount);
        return this.#transmit(item);
      }
    }
  }

  #transmit(item: Item): void {
    this.#queue = this.#queue.filter((other) => other !== item);
    const { stamp, isDoubtful } = item.slot as Slot<Item>;
    const request = { item, stamp, isResent: isDoubtful };
    item.request = request;
    this.#pipe.requests.push(request);
  }

  #handle(pipe: Pipe): void {
    const request = pipe.requests.shift();
    if (request === undefined) return;
    if (pipe.isLeft) this.seen.late++;
    if (this.#isRefusing) return this.#refuse(request, false);
    const { stamp, item, isResent } = request;
    // No request is on its way for as long as ten thousand others take to write.
    if (this.#isForgetful && pipe.isLeft && stamp.baseSequence === 0 && !isResent) return;
    const verdict = this.#table.check({ ...stamp, recordCount: item.recordCount, crc: item.index, isResent });
    switch (verdict.kind) {
      case "refused":
        if (verdict.error === "UNKNOWN_PRODUCER_ID" && stamp.baseSequence === 0) this.seen.forgotten++;
        return this.#refuse(request, true);
      case "duplicate":
        this.seen.duplicates++;
        return this.#await({ request, baseOffset: verdict.baseOffset, endOffset: verdict.endOffset });
      case "new": {
        const baseOffset = this.#table.endOffset;
        const endOffset = baseOffset + item.recordCount;
        this.#table.observe({ ...stamp, baseOffset, lastOffset: endOffset - 1, crc: item.index });
        this.#log.push({ ...request, baseOffset, endOffset });
        return this.#await({ request, baseOffset, endOffset });
      }
    }
  }

  #await(waiter: Waiter): void {
    this.#waiters.push(waiter);
    if (waiter.endOffset <= this.#highWatermark) this.#answer();
  }

  #commit(): void {
    const ends = this.#log.map(({ endOffset }) => endOffset).filter((end) => end > this.#highWatermark);
    if (ends.length > 0) this.#highWatermark = this.#rng.pick(ends);
    this.#answer();
  }

  #answer(): void {
    const due = this.#waiters.filter(({ endOffset }) => endOffset <= this.#highWatermark);
    this.#waiters = this.#waiters.filter((waiter) => !due.includes(waiter));
    for (const { request, baseOffset } of due) {
      const { item } = request;
      if (item.request === request) item.request = undefined;
      if (item.slot !== undefined) this.#free(this.#sequences.appended(item.slot));
      this.#tell(item, "appended", baseOffset);
    }
  }

  #refuse(request: Request, isForNumbers: boolean): void {
    const { item } = request;
    // Of an attempt that was left nothing is believed but success.
    if (item.request !== request) return;
    item.request = undefined;
    if (item.told !== undefined || item.slot === undefined) return;
    if (!isForNumbers) return this.#back(item, this.#sequences.refused(item.slot, false));
    const { kind, freed } = this.#sequences.outOfOrder(item.slot);
    if (kind === "again") return this.#back(item, freed);
    this.#fail(item);
  }

  #back(item: Item, freed: readonly Item[]): void {
    this.#queue.push(item);
    this.#queue.sort((left, right) => left.index - right.index);
    this.#free(freed);
  }

  #free(items: readonly Item[]): void {
    for (const item of items) item.slot = undefined;
  }

  /** Of some that are waited for at the leader, or are on their way back. */
  #loseAnswers(): void {
    for (const waiter of this.#waiters) if (this.#rng.chance(0.5)) this.#doubt(waiter.request);
    this.#waiters = this.#waiters.filter(({ request }) => request.item.request === request);
  }

  #doubt(request: Request): void {
    const { item } = request;
    if (item.request !== request) return;
    item.request = undefined;
    if (item.told !== undefined || item.slot === undefined) return;
    this.#back(item, this.#sequences.refused(item.slot, true));
  }

  /** The producer goes on over another connection. */
  #cut(): void {
    const left = this.#pipe;
    left.isLeft = true;
    this.#pipe = { requests: [], isLeft: false };
    this.#pipes.push(this.#pipe);
    if (this.#rng.chance(0.3)) left.requests = left.requests.slice(0, this.#rng.below(left.requests.length + 1));
    for (const item of this.#items) if (item.request !== undefined) this.#doubt(item.request);
    if (this.#rng.chance(0.7)) this.#waiters = [];
  }

  /** Another replica leads: it has all that is committed, and what else it happens to have. */
  #elect(): void {
    const ends = [this.#highWatermark, ...this.#log.map(({ endOffset }) => endOffset)];
    const endOffset = this.#rng.pick(ends.filter((end) => end >= this.#highWatermark));
    this.#log = this.#log.filter((entry) => entry.endOffset <= endOffset);
    if (!this.#table.truncate(endOffset)) throw new Error("the table cannot be taken back");
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const { request } of waiters) this.#doubt(request);
  }

  #expire(): void {
    const open = this.#items.filter(({ told }) => told === undefined);
    if (open.length > 0) this.#fail(this.#rng.chance(0.7) ? (open[0] as Item) : this.#rng.pick(open));
  }

  #fail(item: Item): void {
    const { slot } = item;
    const isDoubtful = slot !== undefined && (slot.isDoubtful || slot.state === "underWay");
    if (slot !== undefined) this.#free(this.#sequences.failed(slot));
    this.#tell(item, isDoubtful ? "unknown" : "not appended");
  }

  #tell(item: Item, outcome: Outcome, offset?: number): void {
    if (item.told !== undefined) return;
    this.#queue = this.#queue.filter((other) => other !== item);
    item.told = offset === undefined ? { outcome } : { outcome, offset };
    if (outcome === "appended") this.seen.ok++;
    else if (outcome === "unknown") this.seen.unknown++;
    else this.seen.notAppended++;
  }
}
