// One fetch request under way: read, and where that is too little, wait for high watermarks to move and read again.
import { concatBytes } from "../base/bytes.ts";
import { asOttlaError, type ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH, type Offset } from "../model/ids.ts";
import type { ReadResult } from "../storage/types.ts";
import type { API, FetchRequest, FetchResponse } from "../wire/native/apis.ts";
import { splitBodies } from "../wire/native/codec.ts";
import { LIMITS } from "../wire/native/protocol.ts";
import type { HighWatermarkWaiter, Replica } from "./replica.ts";
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
  /** Bytes that the partition had accepted when it was looked at. */
  readonly acceptedBytes: number;
  /** Everything accepted was below the mark then. */
  readonly isSettled: boolean;
  readonly chunks: readonly Uint8Array[];
  readonly sizeBytes: number;
}

interface Pass {
  readonly results: readonly EntryResult[];
  readonly sizeBytes: number;
  readonly hasError: boolean;
}

export interface FetchBounds {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Most that the answer takes, but for a single larger batch. */
  readonly answerBytesMax: number;
  readonly waitMs: number;
}

export class FetchOperation implements HighWatermarkWaiter {
  readonly request: FetchRequestInHand;
  readonly #services: Services;
  readonly #bounds: FetchBounds;
  readonly #expiresAtMs: number;
  #parkedOn: Pass | undefined;
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
    const { connection } = this.request;
    const { answerBytesMax } = this.#bounds;
    while (!this.request.isDone) {
      // A peer that does not take its answers gets no more work done for it (D-26).
      const room = connection.acquireAnswerRoom(answerBytesMax);
      if (room !== undefined) await room;
      const tooLittle = await this.#look().finally(() => connection.releaseAnswerRoom(answerBytesMax));
      if (tooLittle !== undefined) await this.#park(tooLittle);
    }
  }

  /** Reads and answers; or gives what it found, when that is too little and there is time to wait. */
  async #look(): Promise<Pass | undefined> {
    while (!this.request.isDone) {
      if (this.#abandonedWith !== undefined) return this.#fail(this.#abandonedWith);
      if (this.request.isPastDeadline(this.#services.clock.monoMs())) return this.#fail("REQUEST_TIMED_OUT");
      const pass = await this.#readAll();
      if (this.#isComplete(pass)) await this.#respond(pass);
      else if (!this.#hasMoved(pass)) return this.#services.accountant.tryDelay() ? pass : this.#fail("BUSY");
    }
    return undefined;
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

  onMoved(): void {
    const pass = this.#parkedOn;
    if (pass !== undefined && this.#mayHaveEnough(pass)) this.#wake?.();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => this.request.connection.whenDrained(resolve));
  }

  #isComplete(pass: Pass): boolean {
    if (pass.hasError || pass.sizeBytes >= this.#bounds.minBytes || pass.results.length === 0) return true;
    return this.#services.clock.monoMs() >= this.#expiresAtMs;
  }

  /** A mark moved while another partition was being read from disk: nobody will wake us for that one. */
  #hasMoved(pass: Pass): boolean {
    return pass.results.some(
      ({ replica, highWatermark }) => replica !== undefined && replica.core.highWatermark !== highWatermark,
    );
  }

  async #park(pass: Pass): Promise<void> {
    for (const { replica } of pass.results) replica?.waiters.add(this);
    // Between the look and this line a mark may have moved, or the request may have ended.
    if (!this.request.isDone && this.#abandonedWith === undefined && !this.#hasMoved(pass)) await this.#wait(pass);
    for (const { replica } of pass.results) replica?.waiters.delete(this);
    this.#services.accountant.endDelay();
  }

  async #wait(pass: Pass): Promise<void> {
    const waitMs = Math.max(0, this.#expiresAtMs - this.#services.clock.monoMs());
    const deadline = this.#services.deadlines.add(waitMs, () => this.#wake?.());
    this.#parkedOn = pass;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
    this.#parkedOn = undefined;
    deadline.cancel();
  }

  /** Never says no when a read would say yes: what was accepted since bounds what was committed since. */
  #mayHaveEnough(pass: Pass): boolean {
    let bytes = pass.sizeBytes;
    for (const { replica, acceptedBytes, isSettled } of pass.results) {
      if (replica === undefined || !isSettled || !replica.core.isLeader) return true;
      bytes += replica.acceptedBytes - acceptedBytes;
    }
    return bytes >= this.#bounds.minBytes;
  }

  /** S-20: in the order of the request; the first batch found comes whole even when it is larger than every limit, all else fits. */
  async #readAll(): Promise<Pass> {
    const results: EntryResult[] = [];
    let leftBytes = this.#bounds.maxBytes;
    let sizeBytes = 0;
    let hasError = false;
    for (const row of this.request.body.entries) {
      const reading = this.#readEntry(row, { leftBytes, atLeastOne: sizeBytes === 0 });
      const result = reading instanceof Promise ? await reading : reading;
      results.push(result);
      leftBytes -= result.sizeBytes;
      sizeBytes += result.sizeBytes;
      if (result.error !== "NONE") hasError = true;
    }
    return { results, sizeBytes, hasError };
  }

  #readEntry(
    row: EntryRow,
    limits: { readonly leftBytes: number; readonly atLeastOne: boolean },
  ): EntryResult | Promise<EntryResult> {
    const lookup = lookUpPartition(this.#services, row.topicId, row.partition);
    if (lookup.kind === "refused") return failed(lookup.error);
    const { replica } = lookup;
    const { core, log } = replica;
    const refusal = core.refusalOf(row.leaderEpoch);
    if (refusal !== undefined) return failed(refusal);
    if (!core.knowsLatest) return failed("OFFSET_NOT_AVAILABLE");
    if (row.offset < log.startOffset || row.offset > core.endOffset) return failed("OFFSET_OUT_OF_RANGE", replica);
    const { highWatermark } = core;
    const look = {
      replica,
      highWatermark,
      acceptedBytes: replica.acceptedBytes,
      isSettled: core.endOffset === highWatermark,
    };
    const maxBytes = Math.max(0, Math.min(row.maxBytes, limits.leftBytes, LIMITS.LOGICAL_MESSAGE_BODY_BYTES));
    const { atLeastOne } = limits;
    if (row.offset >= highWatermark || (maxBytes === 0 && !atLeastOne)) return found(look, NOTHING);
    const reading = log.read(row.offset as Offset, { limitOffset: highWatermark, maxBytes, atLeastOne });
    if (!(reading instanceof Promise)) return found(look, reading);
    return reading.then(
      (read) => found(look, read),
      (thrown: unknown) => failed(asOttlaError(thrown).code, replica),
    );
  }

  /** Parts of at most 1 MiB of bodies, each with some of the entries, each when the peer has taken enough of those before (D-24). */
  async #respond(pass: Pass): Promise<void> {
    const parts = splitBodies(pass.results.map((result) => result.sizeBytes));
    const { connection } = this.request;
    for (const [index, { start, end }] of parts.entries()) {
      while (connection.isUnsentFull && !this.request.isDone) await this.#drained();
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
    for (let at = part.start; at < part.end; at++) {
      const result = results[at];
      if (result === undefined) continue;
      const body = bodyOf(result);
      entries.push({ index: at, ...rowOf(result), body: body === undefined ? -1 : bodies.length });
      if (body !== undefined) bodies.push(body);
      this.#services.metrics.bytesOut.add(result.sizeBytes);
    }
    if (part.isLast) this.request.respond({ entries }, bodies);
    else this.request.respondPart({ entries }, bodies);
  }
}

const NOTHING: Pick<ReadResult, "chunks" | "sizeBytes"> = { chunks: [], sizeBytes: 0 };

function failed(error: ErrorName, replica?: Replica): EntryResult {
  const highWatermark = replica?.core.highWatermark ?? -1;
  return { error, replica, highWatermark, acceptedBytes: 0, isSettled: false, chunks: [], sizeBytes: 0 };
}

function found(
  look: Pick<EntryResult, "replica" | "highWatermark" | "acceptedBytes" | "isSettled">,
  read: Pick<ReadResult, "chunks" | "sizeBytes">,
): EntryResult {
  return { error: "NONE", ...look, chunks: read.chunks, sizeBytes: read.sizeBytes };
}

function bodyOf({ chunks }: EntryResult): Uint8Array | undefined {
  return chunks.length === 1 ? chunks[0] : chunks.length === 0 ? undefined : concatBytes(chunks);
}

function rowOf({
  error,
  replica,
  highWatermark,
}: EntryResult): Omit<FetchResponse["entries"][number], "index" | "body"> {
  return {
    error,
    leaderEpoch: replica?.core.leaderEpoch ?? NO_LEADER_EPOCH,
    logStartOffset: replica?.log.startOffset ?? -1,
    highWatermark,
    lastStableOffset: highWatermark,
  };
}
