// One fetch request under way: read, and where that is too little, wait for high watermarks to move and read again.
import { concatBytes } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { asOttlaError, type ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH, type Offset } from "../model/ids.ts";
import type { ReadResult } from "../storage/types.ts";
import type { API, FetchRequest, FetchResponse } from "../wire/native/apis.ts";
import { splitBodies } from "../wire/native/codec.ts";
import { LIMITS } from "../wire/native/protocol.ts";
import type { HighWatermarkWaiter, Replica } from "./replica.ts";
import { hasMovedFrom, ParkedFetch } from "./parked-fetch.ts";
import { lookUpPartition } from "./partition-lookup.ts";
import type { Request } from "./request.ts";
import type { Services } from "./services.ts";

export type FetchRequestInHand = Request<typeof API.FETCH>;
type EntryRow = FetchRequest["entries"][number];

/** What one look at one partition gave. */
interface EntryResult {
  readonly error: ErrorName;
  /** undefined on an error. */
  readonly replica: Replica | undefined;
  /** The limit that the read was made under: no byte at or above it is in `chunks` (invariant 11). */
  readonly highWatermark: number;
  /** False: a new leader gave what it knows to be committed; a consumer may know of more, and is not told that mark (invariant 10). */
  readonly isMarkTold: boolean;
  /** Bytes that the partition had accepted when it was looked at. */
  readonly acceptedBytes: number;
  /** Everything accepted was below the mark then. */
  readonly isSettled: boolean;
  readonly chunks: readonly Uint8Array[];
  readonly sizeBytes: number;
  readonly release: (() => void) | undefined;
}

interface Pass {
  readonly results: readonly EntryResult[];
  readonly sizeBytes: number;
  readonly hasError: boolean;
  /** There was something to read, but no batch of it fitted into a small answer. */
  readonly isStarved: boolean;
}

export interface FetchBounds {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Most that one look may read: `maxBytes`, or a single larger batch. */
  readonly answerBytesMax: number;
  readonly waitMs: number;
}

export class FetchOperation implements HighWatermarkWaiter {
  readonly request: FetchRequestInHand;
  readonly #services: Services;
  readonly #bounds: FetchBounds;
  readonly #expiresAtMs: number;
  /** What it has of the connection's room for answers. */
  #roomBytes = 0;
  #maySmall = true;
  #parked: ParkedFetch | undefined;
  #wake: (() => void) | undefined;
  #abandonedWith: ErrorName | undefined;

  constructor(services: Services, request: FetchRequestInHand, bounds: FetchBounds) {
    this.#services = services;
    this.request = request;
    this.#bounds = bounds;
    this.#expiresAtMs = request.receivedMs + bounds.waitMs;
  }

  /** Resolves when the request is answered or dropped. */
  async run(): Promise<void> {
    const { answers } = this.request.connection;
    const { answerBytesMax } = this.#bounds;
    while (!this.request.isDone) {
      // A peer that does not take its answers gets no more work done for it (D-26).
      const granted = answers.tryAcquire(answerBytesMax, this.#maySmall);
      this.#roomBytes = granted ?? (await answers.acquire(answerBytesMax));
      const tooLittle = await this.#look().finally(() => this.#resizeRoom(0));
      if (tooLittle !== undefined) await this.#park(tooLittle);
    }
  }

  #resizeRoom(sizeBytes: number): void {
    const { answers } = this.request.connection;
    const grownBytes = sizeBytes - this.#roomBytes;
    this.#roomBytes = sizeBytes;
    if (grownBytes < 0) answers.release(-grownBytes);
    else answers.adjust(grownBytes);
  }

  /** Reads and answers; or gives where to wait, when what was found is too little and there is time to wait; or neither: look again. */
  async #look(): Promise<ParkedFetch | undefined> {
    if (this.request.isDone) return undefined;
    if (this.#abandonedWith !== undefined) return this.#fail(this.#abandonedWith);
    if (this.request.isPastDeadline(this.#services.clock.monoMs())) return this.#fail("REQUEST_TIMED_OUT");
    const isSmall = this.#roomBytes < this.#bounds.answerBytesMax;
    const pass = await this.#readAll(isSmall);
    if (this.request.isDone) return undefined;
    this.#resizeRoom(pass.sizeBytes);
    this.#maySmall = !pass.isStarved; // it comes again, for all the room that it needs
    if (this.#isComplete(pass) || (isSmall && pass.sizeBytes > 0)) {
      await this.#respond(pass);
      return undefined;
    }
    releaseAll(pass.results);
    return pass.isStarved || this.#hasMoved(pass) ? undefined : this.#parkedOn(pass);
  }

  #parkedOn(pass: Pass): ParkedFetch | undefined {
    if (!this.#services.accountant.tryDelay()) return this.#fail("BUSY");
    return new ParkedFetch(pass.results, this.#bounds.minBytes - pass.sizeBytes);
  }

  #fail(error: ErrorName): undefined {
    this.request.fail(error);
  }

  /** Ends it with an error, also while it waits. */
  abandon(error: ErrorName): void {
    this.#abandonedWith = error;
    this.#wake?.();
  }

  onConnectionClosed(): void {
    this.request.drop();
    this.#wake?.();
  }

  onMoved(replica: Replica): void {
    if (this.#parked?.mayHaveEnough(replica) === true) this.#wake?.();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => this.request.connection.answers.whenDrained(resolve));
  }

  #isComplete(pass: Pass): boolean {
    if (pass.isStarved) return false;
    if (pass.hasError || pass.sizeBytes >= this.#bounds.minBytes || pass.results.length === 0) return true;
    return this.#services.clock.monoMs() >= this.#expiresAtMs;
  }

  /** While another partition was being read from disk: nobody will wake us for that one. */
  #hasMoved(pass: Pass): boolean {
    return pass.results.some(
      ({ replica, highWatermark }) => replica !== undefined && hasMovedFrom(replica, highWatermark),
    );
  }

  async #park(parked: ParkedFetch): Promise<void> {
    for (const replica of parked.replicas) replica.waiters.add(this);
    // Between the look and this line a mark or a role may have moved, or the request may have ended.
    if (!this.request.isDone && this.#abandonedWith === undefined && !parked.hasMoved()) await this.#wait(parked);
    for (const replica of parked.replicas) replica.waiters.delete(this);
    this.#services.accountant.endDelay();
  }

  async #wait(parked: ParkedFetch): Promise<void> {
    const waitMs = Math.max(0, this.#expiresAtMs - this.#services.clock.monoMs());
    const deadline = this.#services.deadlines.add(waitMs, () => this.#wake?.());
    this.#parked = parked;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
    this.#parked = undefined;
    deadline.cancel();
  }

  /** S-20: in the order of the request; the first batch found comes whole even when it is larger than every limit, all else fits. */
  async #readAll(isSmall: boolean): Promise<Pass> {
    const results: EntryResult[] = [];
    let leftBytes = isSmall ? this.#roomBytes : this.#bounds.maxBytes;
    let sizeBytes = 0;
    let hasError = false;
    let isCut = false;
    for (const row of this.request.body.entries) {
      const reading = this.#readEntry(row, { leftBytes, atLeastOne: sizeBytes === 0 && !isSmall });
      const result = reading instanceof Promise ? await reading : reading;
      if (isSmall && result.sizeBytes === 0 && row.offset < result.highWatermark) isCut = true;
      results.push(result);
      leftBytes -= result.sizeBytes;
      sizeBytes += result.sizeBytes;
      if (result.error !== "NONE") hasError = true;
    }
    return { results, sizeBytes, hasError, isStarved: isCut && sizeBytes === 0 && !hasError };
  }

  /** What has to come from disk waits for its turn, and is then looked at anew. */
  #readEntry(
    row: EntryRow,
    limits: { readonly leftBytes: number; readonly atLeastOne: boolean },
    turn?: () => Promise<void> | undefined,
  ): EntryResult | Promise<EntryResult> {
    if (this.request.isDone) return failed("BROKER_NOT_AVAILABLE");
    const lookup = lookUpPartition(this.#services, row.topicId, row.partition);
    if (lookup.kind === "refused") return failed(lookup.error);
    if (row.leaderEpoch < NO_LEADER_EPOCH) return failed("INVALID_REQUEST");
    const { replica } = lookup;
    const { core, log } = replica;
    const refusal = core.refusalOf(row.leaderEpoch);
    if (refusal !== undefined) return failed(refusal);
    const { highWatermark, knowsLatest } = core;
    if (!knowsLatest && row.offset >= highWatermark) return failed("OFFSET_NOT_AVAILABLE");
    if (row.offset < core.startOffset || row.offset > core.endOffset) return failed("OFFSET_OUT_OF_RANGE", replica);
    const look = {
      replica,
      highWatermark,
      isMarkTold: knowsLatest,
      acceptedBytes: replica.acceptedBytes,
      isSettled: core.endOffset === highWatermark,
    };
    const maxBytes = Math.max(0, Math.min(row.maxBytes, limits.leftBytes, LIMITS.LOGICAL_MESSAGE_BODY_BYTES));
    const { atLeastOne } = limits;
    if (row.offset >= highWatermark || (maxBytes === 0 && !atLeastOne)) return found(look, NOTHING);
    if (turn === undefined && !log.isInMemory(row.offset as Offset))
      return this.#services.readLanes.run((admitted) => this.#readEntry(row, limits, admitted));
    const reading = log.read(row.offset as Offset, { limitOffset: highWatermark, maxBytes, atLeastOne, turn });
    if (!(reading instanceof Promise)) return found(look, reading);
    return reading.then(
      (read) => found(look, read),
      (thrown: unknown) => {
        // The damage that the read has met shows in the metadata from now on.
        this.#services.metadataAnswers.clear();
        return failed(asOttlaError(thrown).code, replica);
      },
    );
  }

  /** Parts of at most 1 MiB of bodies, each with some of the entries, each when the peer has taken enough of those before (D-24). */
  async #respond(pass: Pass): Promise<void> {
    const parts = splitBodies(pass.results.map((result) => result.sizeBytes));
    const { connection } = this.request;
    for (const [index, { start, end }] of parts.entries()) {
      while (connection.answers.isFull && !this.request.isDone) await this.#drained();
      if (this.request.isDone) return;
      this.#respondPart(pass.results, { start, end, isLast: index === parts.length - 1 });
    }
  }

  #respondPart(
    results: readonly EntryResult[],
    part: { readonly start: number; readonly end: number; readonly isLast: boolean },
  ): void {
    const bodies: Uint8Array[] = [];
    const entries: FetchResponse["entries"][number][] = [];
    let sizeBytes = 0;
    for (let at = part.start; at < part.end; at++) {
      const result = results[at];
      if (result === undefined) continue;
      const body = bodyOf(result);
      entries.push({ index: at, ...rowOf(result), body: body === undefined ? -1 : bodies.length });
      if (body !== undefined) bodies.push(body);
      sizeBytes += result.sizeBytes;
    }
    this.#services.metrics.bytesOut.add(sizeBytes);
    // From here on these bytes are counted as unsent ones.
    this.#resizeRoom(this.#roomBytes - sizeBytes);
    const onTaken = (): void => releaseAll(results.slice(part.start, part.end));
    if (part.isLast) this.request.respond({ entries }, bodies, onTaken);
    else this.request.respondPart({ entries }, bodies, onTaken);
    if (mutant("S-20b")) onTaken();
  }
}

const NOTHING: Pick<ReadResult, "chunks" | "sizeBytes"> = { chunks: [], sizeBytes: 0 };

function failed(error: ErrorName, replica?: Replica): EntryResult {
  const isMarkTold = replica?.core.knowsLatest === true;
  const highWatermark = replica?.core.highWatermark ?? -1;
  const nothing = { acceptedBytes: 0, isSettled: false, ...NOTHING, release: undefined };
  return { error, replica, highWatermark, isMarkTold, ...nothing };
}

function found(
  look: Pick<EntryResult, "replica" | "highWatermark" | "isMarkTold" | "acceptedBytes" | "isSettled">,
  { chunks, sizeBytes, release }: Pick<ReadResult, "chunks" | "sizeBytes" | "release">,
): EntryResult {
  return { error: "NONE", ...look, chunks, sizeBytes, release };
}

function releaseAll(results: readonly EntryResult[]): void {
  for (const { release } of results) release?.();
}

function bodyOf({ chunks }: EntryResult): Uint8Array | undefined {
  return chunks.length === 1 ? chunks[0] : chunks.length === 0 ? undefined : concatBytes(chunks);
}

function rowOf({
  error,
  replica,
  highWatermark,
  isMarkTold,
}: EntryResult): Omit<FetchResponse["entries"][number], "index" | "body"> {
  return {
    error,
    leaderEpoch: replica?.core.leaderEpoch ?? NO_LEADER_EPOCH,
    logStartOffset: replica?.core.startOffset ?? -1,
    highWatermark: isMarkTold ? highWatermark : -1,
    lastStableOffset: isMarkTold ? highWatermark : -1,
  };
}
