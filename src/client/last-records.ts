// Where the last N records of a partition begin. Offsets do not tell: the broker's control batches have some, and records that compaction removed
// had some. So what a consumer would see is counted, from the end back.
import { keepable } from "../base/bytes.ts";
import { Ring } from "../base/ring.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { TopicId } from "../model/ids.ts";
import {
  baseOffsetAt,
  DECOMPRESSED_BYTES_MAX,
  isControlBatchAt,
  lastOffsetAt,
  lastOffsetDeltaAt,
  recordCountAt,
} from "../model/record-batch.ts";
import { decodeRecords, forEachBatch } from "../model/records.ts";
import { API, type FetchRequest, type FetchResponse } from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import { partitionOf } from "./metadata-cache.ts";

/** More are taken by their offsets: to count them means to read them. */
export const COUNTED_MAX = 10_000;
const FETCH_BYTES = 1024 * 1024;
const WAIT_MS = 500;

export interface LastRecords {
  readonly topic: string;
  readonly topicId: TopicId;
  readonly partition: number;
  /** Where the partition starts and ends, exclusive. */
  readonly start: number;
  readonly end: number;
  /** N. */
  readonly count: number;
}

/** What is needed to read the partition. */
interface Source {
  readonly context: ClientContext;
  readonly connection: BrokerConnection;
  readonly wanted: LastRecords;
  readonly timeoutMs: number;
  readonly onHeard: () => void;
}

/**
 * The offset of the N-th record from the end; where there are fewer, the start. `timeoutMs`: for each answer of the leader. Throws OttlaError, a
 * retriable one also when the leader does not give yet what lies below the end.
 */
export async function startOfLast(
  context: ClientContext,
  asked: {
    readonly link: BrokerLink;
    readonly wanted: LastRecords;
    readonly timeoutMs: number;
    /** With each answer that has some of them. */
    readonly onHeard?: () => void;
  },
): Promise<number> {
  const { link, wanted, timeoutMs, onHeard = () => undefined } = asked;
  const { count, end } = wanted;
  const byOffset = Math.max(wanted.start, end - count);
  if (count > COUNTED_MAX || byOffset >= end) return byOffset;
  const connection = await link.getWithin(timeoutMs, "REQUEST_TIMED_OUT");
  const source = { context, connection, wanted, timeoutMs, onHeard };
  let { start } = wanted;
  let upTo = end;
  let missing = count;
  // Doubled: where nearly all was compacted away, few steps do.
  for (let step = count; upTo > start; step = Math.max(missing, 2 * step)) {
    const from = Math.max(start, upTo - step);
    const tail = new Tail(missing);
    start = Math.max(start, await readStretch(source, { from, upTo }, tail));
    if (tail.first !== undefined) return tail.first;
    missing -= tail.count;
    upTo = from;
  }
  return start;
}

/** The last records of a stretch as runs of offsets without a hole: as few as hold all that are wanted. */
class Tail {
  readonly #wanted: number;
  readonly #runs = new Ring<{ readonly first: number; readonly count: number }>();
  count = 0;

  constructor(wanted: number) {
    this.#wanted = wanted;
  }

  add(first: number, count: number): void {
    if (count <= 0) return;
    this.#runs.push({ first, count });
    this.count += count;
    for (let run = this.#runs.peek(); run !== undefined; run = this.#runs.peek()) {
      if (this.count - run.count < this.#wanted) return;
      this.#runs.shift();
      this.count -= run.count;
    }
  }

  /** Where the wanted ones begin; undefined when there are fewer. */
  get first(): number | undefined {
    const run = this.#runs.peek();
    return run === undefined || this.count < this.#wanted ? undefined : run.first + (this.count - this.#wanted);
  }
}

interface Stretch {
  readonly from: number;
  readonly upTo: number;
}

/** Enters the records of [from, upTo). Returns the log start as the leader told it. */
async function readStretch(source: Source, stretch: Stretch, tail: Tail): Promise<number> {
  let logStart = -1;
  for (let at = stretch.from; at < stretch.upTo; ) {
    const answer = await fetchAt(source, at);
    logStart = Math.max(logStart, answer.logStart);
    // Deleted meanwhile: what is left begins there.
    if (answer.isBelowStart) at = answer.logStart;
    else at = enterBatches(source, { from: at, upTo: stretch.upTo, body: answer.body }, tail);
  }
  return logStart;
}

/** Returns the offset behind the last batch. */
function enterBatches(source: Source, part: Stretch & { readonly body: Uint8Array }, tail: Tail): number {
  const { from, body } = part;
  let next = from;
  try {
    forEachBatch(body, (position, sizeBytes) => {
      next = lastOffsetAt(body, position) + 1;
      if (!isControlBatchAt(body, position))
        enterBatch(source, { ...part, body: body.subarray(position, position + sizeBytes) }, tail);
    });
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown;
    throw new OttlaError("CORRUPT_MESSAGE", thrown.message);
  }
  if (next <= from) throw new OttlaError("CORRUPT_MESSAGE", "batches that do not reach the asked offset");
  return next;
}

function enterBatch({ context }: Source, part: Stretch & { readonly body: Uint8Array }, tail: Tail): void {
  const { from, upTo, body: batch } = part;
  if (recordCountAt(batch, 0) === lastOffsetDeltaAt(batch, 0) + 1) {
    const first = Math.max(from, baseOffsetAt(batch, 0));
    return tail.add(first, Math.min(upTo, lastOffsetAt(batch, 0) + 1) - first);
  }
  const { checksum, codecs } = context;
  decodeRecords(batch, { checksum, codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX }).forEach(({ offset }) => {
    if (offset >= from && offset < upTo) tail.add(offset, 1);
  });
}

interface Fetched {
  readonly body: Uint8Array;
  readonly logStart: number;
  /** The asked offset is below the log start: there is no body. */
  readonly isBelowStart: boolean;
}

async function fetchAt({ context, connection, wanted, timeoutMs, onHeard }: Source, offset: number): Promise<Fetched> {
  const { topic, topicId, partition } = wanted;
  const leaderEpoch = partitionOf(context.metadata.peek(topic), partition)?.leaderEpoch ?? -1;
  const entries = [{ topicId, partition, leaderEpoch, offset, maxBytes: FETCH_BYTES }];
  const request = { maxWaitMs: WAIT_MS, minBytes: 1, maxBytes: FETCH_BYTES, entries };
  const { entry, body } = await callFetch(connection, request, WAIT_MS + timeoutMs);
  const logStart = entry?.logStartOffset ?? -1;
  if (entry === undefined) throw new OttlaError("PROTOCOL_ERROR", "an answer without it");
  if (entry.error === "OFFSET_OUT_OF_RANGE") {
    if (logStart > offset) return { body: new Uint8Array(), logStart, isBelowStart: true };
    throw new OttlaError("OFFSET_NOT_AVAILABLE", "its range changed while its records were counted");
  }
  if (entry.error !== "NONE") throw new OttlaError(entry.error);
  if (body === undefined || body.length === 0) throw new OttlaError("OFFSET_NOT_AVAILABLE");
  onHeard();
  return { body, logStart, isBelowStart: false };
}

function callFetch(
  connection: BrokerConnection,
  request: FetchRequest,
  timeoutMs: number,
): Promise<{ entry: FetchResponse["entries"][number] | undefined; body: Uint8Array | undefined }> {
  return new Promise((resolve, reject) => {
    let entry: FetchResponse["entries"][number] | undefined;
    let body: Uint8Array | undefined;
    connection.request(
      API.FETCH,
      { request, bodies: [], timeoutMs, isPatient: true },
      {
        onAnswer: (response, bodies, isLast) => {
          const [found] = response.entries;
          if (found !== undefined) {
            entry = found;
            const bytes = bodies[found.body];
            body = bytes === undefined ? undefined : keepable(bytes);
          }
          if (isLast) resolve({ entry, body });
        },
        onFailure: (error) => reject(asOttlaError(error)),
      },
    );
  });
}
