// ottla produce: stdin to a topic, one record per line. Holds no record longer than the client's buffer does.
import { setTimeout as delay } from "node:timers/promises";
import type { Acks, Client, OutgoingRecord, Producer, ProducerOptions, TopicInfo } from "../../client/types.ts";
import type { PartitionState } from "../../client/admin-types.ts";
import { OttlaError } from "../../model/errors.ts";
import { producerNameFault } from "../../model/producer-name.ts";
import type { CompressionName } from "../../ports/codecs.ts";
import { withClient } from "../client.ts";
import { isDirectory } from "../data-dir.ts";
import type { Invocation } from "../invocation.ts";
import { LineSplitter } from "../line-splitter.ts";
import { ProduceTally } from "../produce-tally.ts";
import { endBySignal, exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { counted, parseDuration, parseInteger, parsePair, parseSize, parseWait, UsageError } from "../values.ts";

export interface ProduceFlags {
  readonly acks: string;
  readonly keyDelimiter?: string;
  readonly emptyAsNull?: boolean;
  readonly header?: readonly string[];
  readonly compression: string;
  readonly partition?: string;
  readonly rate?: string;
  readonly skipOversized?: boolean;
  readonly batchBytes?: string;
  readonly linger?: string;
  readonly deliveryTimeout?: string;
  readonly producerName?: string;
  /** False with --no-idempotence. */
  readonly idempotence: boolean;
}

const CODECS: readonly string[] = ["none", "gzip", "snappy", "lz4", "zstd"] satisfies CompressionName[];
/** How long Ctrl-C waits for answers that are on their way. */
const INTERRUPT_GRACE_MS = 1000;
/** How long they are waited for when nothing more can be sent. */
const FAILURE_GRACE_MS = 5000;
/** For all that is asked after the last record of acks 0. */
const SENT_LOOK_MS = 3_000;
const PACE_MS = 50;
/** Of --rate: what a busy machine held back so long is still sent at once. */
const CATCH_UP_MS = 250;
/** Far more than is ever in flight to one broker; what waits beyond that makes nothing faster. */
const BUFFER_BYTES = 16 * 1024 * 1024;

function acksOf(text: string): Acks {
  if (text === "all" || text === "-1") return "all";
  if (text === "0" || text === "1") return text === "0" ? 0 : 1;
  throw new UsageError(`--acks takes 0, 1 or all, not "${text}"`);
}

function batchBytesOf(text: string): number {
  const value = parseSize(text, "--batch-bytes");
  if (value < 1) throw new UsageError(`--batch-bytes takes a size of a byte or more, not "${text}"`);
  return value;
}

function producerOptions(flags: ProduceFlags): ProducerOptions {
  if (!CODECS.includes(flags.compression))
    throw new UsageError(`-z takes ${CODECS.join(", ")}, not "${flags.compression}"`);
  const acks = acksOf(flags.acks);
  if (flags.producerName !== undefined && (acks !== "all" || !flags.idempotence))
    throw new UsageError("--producer-name goes with --acks all, and not with --no-idempotence");
  const fault = flags.producerName === undefined ? undefined : producerNameFault(flags.producerName);
  if (fault !== undefined) throw new UsageError(`--producer-name takes ${fault}`);
  return {
    acks,
    idempotent: flags.idempotence && acks === "all",
    ...(flags.producerName === undefined ? {} : { name: flags.producerName }),
    bufferBytes: BUFFER_BYTES,
    compression: flags.compression as CompressionName,
    ...(flags.batchBytes === undefined ? {} : { batchBytes: batchBytesOf(flags.batchBytes) }),
    ...(flags.deliveryTimeout === undefined
      ? {}
      : { deliveryTimeoutMs: parseWait(flags.deliveryTimeout, "--delivery-timeout") }),
    ...(flags.linger === undefined ? {} : { lingerMs: parseDuration(flags.linger, "--linger") }),
  };
}

/** Makes records of lines: what all have in common is said once. */
interface RecordMaker {
  /** When the lines to come were read: asking the clock once per chunk instead of per line is 3 % of the whole. */
  stamp(timestampMs: number): void;
  /** The record is valid until the next call. */
  make(line: Uint8Array): OutgoingRecord;
}

function recordMaker(flags: ProduceFlags): RecordMaker {
  const headers = (flags.header ?? []).map((text) => {
    const [key, value] = parsePair(text, "-H");
    return [key, Buffer.from(value)] as const;
  });
  const delimiter = flags.keyDelimiter === undefined ? undefined : Buffer.from(flags.keyDelimiter);
  if (delimiter?.length === 0) throw new UsageError("--key-delimiter takes a text that is not empty");
  const isEmptyNull = flags.emptyAsNull === true;
  if (isEmptyNull && delimiter === undefined)
    throw new UsageError(
      "--empty-as-null goes with --key-delimiter",
      "a value of null deletes its key: give it with -K :",
    );
  // One object for all records: enqueue copies what it is given before it returns.
  const record: { -readonly [Name in keyof OutgoingRecord]: OutgoingRecord[Name] } = {
    value: null,
    ...(headers.length > 0 ? { headers } : {}),
    ...(flags.partition === undefined ? {} : { partition: parseInteger(flags.partition, "--partition", { min: 0 }) }),
  };
  return {
    stamp: (timestampMs) => {
      record.timestamp = timestampMs;
    },
    make: (line) => {
      const at = delimiter === undefined ? -1 : bufferOf(line).indexOf(delimiter);
      record.key = at < 0 ? null : line.subarray(0, at);
      const value = at < 0 ? line : line.subarray(at + (delimiter?.length ?? 0));
      record.value = isEmptyNull && value.length === 0 ? null : value;
      return record;
    },
  };
}

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export async function produce({ args, flags, output }: Invocation<ProduceFlags>): Promise<number> {
  const topic = args[0] ?? "";
  // Node reads one as if it were empty.
  if (isDirectory("/dev/stdin")) throw new UsageError("standard input is a directory", "give a file or a pipe");
  const options = producerOptions(flags);
  const maker = recordMaker(flags);
  const rate = flags.rate === undefined ? undefined : parseInteger(flags.rate, "--rate", { min: 1 });
  const send = async (client: Client): Promise<number> => {
    const isAnswered = options.acks !== 0;
    const tally = new ProduceTally(output, { skipsOversized: flags.skipOversized === true, isAnswered });
    const producer = client.producer({ ...options, onBatch: (report) => tally.onBatch(report) });
    const info = await producer.prepare(topic);
    refuseUnknownPartition(flags.partition, info);
    if (process.stdin.isTTY === true) output.note("one record per line; Ctrl-D ends");
    tally.startProgress();
    const end = await new Feed({ producer, topic, maker, tally, rate }).run(info.maxMessageBytes);
    if (!isAnswered && end.kind === "done") await lookAfterSent(client, topic, tally);
    // After an ordinary end everything was flushed already.
    await producer.close({ timeoutMs: INTERRUPT_GRACE_MS });
    tally.finish(topic);
    if (end.kind === "interrupted") return exitCodeOfSignal(end.signal);
    if (tally.isTopicGone) throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `topic ${topic} is not there any more`);
    if (end.kind === "failed") throw end.error;
    return tally.exitCode;
  };
  return withClient(flags, send, [options.compression ?? "none"]);
}

/**
 * Without answers only a later request over the same connections tells that everything has arrived; and a leader that takes nothing throws away
 * what it was sent.
 */
async function lookAfterSent(client: Client, topic: string, tally: ProduceTally): Promise<void> {
  const { partitions } = tally;
  if (partitions.length === 0) return;
  const nameOf = ({ index }: PartitionState) => `${topic}-${index}`;
  try {
    const asked = { partitions, timeoutMs: SENT_LOOK_MS };
    const [states, { configs }] = await Promise.all([
      client.admin().describePartitions(topic, asked),
      client.admin().describeTopic(topic, { timeoutMs: SENT_LOOK_MS }),
    ]);
    const doubtful = states.filter(({ unknown }) => unknown !== undefined);
    const lacking = states.filter(({ isr, minIsr, unknown }) => unknown === undefined && isr.length < minIsr);
    if (doubtful.length > 0) {
      const why = `whether the leader got what was sent is not known (${doubtful[0]?.unknown?.message})`;
      tally.doubt(doubtful.map(nameOf), why, false);
    }
    if (lacking.length > 0 && configs["allow.acks.below.min.isr"] !== "1") {
      const [{ isr, minIsr }] = lacking as [PartitionState];
      const why = `nothing is taken there now, and what was sent is lost: ${isr.length} in sync, ${minIsr} needed (min.insync.replicas)`;
      tally.doubt(lacking.map(nameOf), why, true);
    }
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    tally.doubt([topic], `whether the leaders got what was sent is not known (${why})`, false);
  }
}

function refuseUnknownPartition(partition: string | undefined, { name, partitions }: TopicInfo): void {
  if (partition === undefined || Number(partition) < partitions.length) return;
  const message = `${name} has ${counted(partitions.length, "partition")}, no partition ${partition}`;
  const hint = `ottla topic describe ${name} shows them`;
  throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", message, { hint });
}

interface FeedParts {
  readonly producer: Producer;
  readonly topic: string;
  readonly maker: RecordMaker;
  readonly tally: ProduceTally;
  readonly rate: number | undefined;
}

type FeedEnd =
  | { readonly kind: "done" }
  | { readonly kind: "interrupted"; readonly signal: StopSignal }
  /** Nothing more can be sent. */
  | { readonly kind: "failed"; readonly error: Error };

/** Reads stdin to its end, to a signal, or to the first error after which nothing more can be sent. */
class Feed {
  readonly #parts: FeedParts;
  /** When the next record is due at the rate that was asked for; undefined: before the first. */
  #dueMs: number | undefined;

  constructor(parts: FeedParts) {
    this.#parts = parts;
  }

  /** Never rejects. */
  async run(maxMessageBytes: number): Promise<FeedEnd> {
    const { tally } = this.#parts;
    const splitter = new LineSplitter(maxMessageBytes, {
      onLine: (line, lineNumber) => this.#line(line, lineNumber),
      onTooLong: (lineNumber, sizeBytes) => tally.oversized(lineNumber, sizeBytes),
    });
    let off = (): void => undefined;
    const interrupted = new Promise<FeedEnd>((resolve) => {
      const onFirst = (signal: StopSignal) => resolve({ kind: "interrupted", signal });
      off = onStopSignals({ onFirst, onAgain: endBySignal });
    });
    // What the reader meets after a signal is the destroyed stream, which says nothing new.
    const pumped = this.#pump(splitter).then(
      async (): Promise<FeedEnd> => {
        await this.#parts.producer.flush().catch(() => undefined);
        return { kind: "done" };
      },
      async (error: Error): Promise<FeedEnd> => {
        const signal = AbortSignal.timeout(FAILURE_GRACE_MS);
        await this.#parts.producer.flush({ signal }).catch(() => undefined);
        return { kind: "failed", error };
      },
    );
    const end = await Promise.race([interrupted, pumped]);
    if (end.kind !== "done") process.stdin.destroy();
    off();
    return end;
  }

  async #pump(splitter: LineSplitter): Promise<void> {
    const { tally, maker } = this.#parts;
    for await (const chunk of process.stdin) {
      maker.stamp(Date.now());
      await splitter.push(chunk as Uint8Array);
      if (tally.isHopeless) return;
    }
    await splitter.end();
  }

  #line(line: Uint8Array, lineNumber: number): Promise<void> | undefined {
    const { producer, topic, maker, tally, rate } = this.#parts;
    // Held back lines are sent long after they were read.
    if (rate !== undefined) maker.stamp(Date.now());
    try {
      const wait = producer.enqueue(topic, maker.make(line));
      tally.read(line.length);
      if (rate === undefined) return wait;
      return wait === undefined ? this.#pace(rate) : wait.then(() => this.#pace(rate));
    } catch (thrown) {
      const code = thrown instanceof OttlaError ? thrown.code : undefined;
      if (code === "MESSAGE_TOO_LARGE") tally.oversized(lineNumber, line.length);
      else if (code === "INVALID_RECORD") tally.keyless(lineNumber, line.length);
      else throw thrown;
      return undefined;
    }
  }

  /** Waits when more was sent than the rate allows by now. What a pause of the input left unused is not made up for. */
  #pace(rate: number): Promise<void> | undefined {
    const nowMs = performance.now();
    const dueMs = Math.max(this.#dueMs ?? nowMs, nowMs - CATCH_UP_MS) + 1000 / rate;
    this.#dueMs = dueMs;
    const aheadMs = dueMs - nowMs;
    return aheadMs < PACE_MS ? undefined : delay(aheadMs);
  }
}
