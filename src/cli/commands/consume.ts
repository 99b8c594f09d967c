// ottla consume: records of topics to stdout, as they are or in a format.
import { orAborted } from "../../client/aborted.ts";
import type { Client, Consumer, ConsumerOptions, RecordBatchView, StartPosition } from "../../client/types.ts";
import { OttlaError } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { ByteWriter } from "../byte-writer.ts";
import { timeoutOf, withClient } from "../client.ts";
import { type FormatPart, parseFormat, recordAsJson, writeRecord } from "../format.ts";
import type { Invocation } from "../invocation.ts";
import { endBySignal, exitCodeOfSignal, onStopSignals, type StopSignal } from "../signals.ts";
import { parseStartPosition } from "../start-position.ts";
import { counted, parseInteger, parsePartitions } from "../values.ts";

export interface ConsumeFlags {
  readonly offset: string;
  readonly exitAtEnd?: boolean;
  readonly count?: string;
  readonly partitions?: string;
  readonly format?: string;
}

export async function consume({ args, flags, output }: Invocation<ConsumeFlags>): Promise<number> {
  const abort = new AbortController();
  const from = parseStartPosition(flags.offset, Date.now());
  const options: CheckedOptions = {
    topics: args,
    from,
    // Whoever names an offset wants that one and no other.
    onOutOfRange: isOffset(from) ? "error" : "start",
    untilEnd: flags.exitAtEnd === true,
    timeoutMs: timeoutOf(flags),
    signal: abort.signal,
    ...(flags.partitions === undefined ? {} : { partitions: parsePartitions(flags.partitions) }),
  };
  const limit = flags.count === undefined ? Number.POSITIVE_INFINITY : parseInteger(flags.count, "--count", { min: 1 });
  const format = output.isJson ? undefined : parseFormat(flags.format ?? "%v\\n");
  const print = async (client: Client): Promise<number> => {
    const consumer = client.consumer(options);
    const printer = new Printer(new ByteWriter(process.stdout), { format, limit });
    let stopSignal: StopSignal | undefined;
    const onFirst = (signal: StopSignal) => {
      stopSignal = signal;
      abort.abort();
    };
    const off = onStopSignals({ onFirst, onAgain: endBySignal });
    try {
      if (isOffset(from)) await orAborted(refuseOutOfRange(client, options, from.offset), abort.signal);
      await printer.printAll(consumer);
      output.note(counted(printer.printed, "record"));
      return stopSignal === undefined ? EXIT.OK : exitCodeOfSignal(stopSignal);
    } catch (thrown) {
      if (stopSignal === undefined) throw withPartitionHint(thrown, options);
      return exitCodeOfSignal(stopSignal);
    } finally {
      off();
      await printer.flush();
      await consumer.close();
    }
  };
  // Which codecs the batches are in is not known before they are read.
  return withClient(flags, print, ["none", "gzip", "snappy", "lz4", "zstd"]);
}

const isOffset = (from: StartPosition): from is { readonly offset: number } =>
  typeof from === "object" && "offset" in from;

const RANGES_TOLD_MAX = 5;

type CheckedOptions = ConsumerOptions & { readonly timeoutMs: number };

/** Says what range there is. Asked before: a consumer that stops at the end would take an offset behind it for the end. */
async function refuseOutOfRange(client: Client, options: CheckedOptions, offset: number): Promise<void> {
  const { topics } = options;
  const faults: string[] = [];
  for (const topic of topics) {
    // Those that nobody can tell of now are checked when they are read.
    const all = await client.admin().offsets(topic, { partial: true, timeoutMs: options.timeoutMs });
    const asked = all.filter(
      ({ partition, error }) => error === undefined && (options.partitions?.includes(partition) ?? true),
    );
    for (const { partition, startOffset, endOffset } of asked) {
      if (offset < startOffset || offset > endOffset)
        faults.push(
          `offset ${offset} of ${topic}-${partition} is out of range: ${startOffset} to ${endOffset} (the end)`,
        );
    }
  }
  if (faults.length === 0) return;
  const more = faults.length > RANGES_TOLD_MAX ? [`and ${faults.length - RANGES_TOLD_MAX} partitions more`] : [];
  const hint = `ottla topic describe ${topics.join(" ")} shows the offsets; -P takes partitions, -o also start, end and -N`;
  throw new OttlaError("OFFSET_OUT_OF_RANGE", [...faults.slice(0, RANGES_TOLD_MAX), ...more].join("; "), { hint });
}

/** With -P the topic may well exist, and only the partition be missing. */
function withPartitionHint(thrown: unknown, { topics, partitions }: ConsumerOptions): unknown {
  if (partitions === undefined || !(thrown instanceof OttlaError) || !/ has no partition \d/.test(thrown.message))
    return thrown;
  const hint = `ottla topic describe ${topics.join(" ")} shows the partitions`;
  return new OttlaError(thrown.code, thrown.message, { cause: thrown, hint });
}

/** Only the value and a line feed: the default, and the case that has to be fast. */
function isPlain(format: readonly FormatPart[] | undefined): boolean {
  const [first, second, ...rest] = format ?? [];
  const isValue = first?.kind === "field" && first.field === "value";
  return (
    isValue && second?.kind === "bytes" && second.bytes.length === 1 && second.bytes[0] === 10 && rest.length === 0
  );
}

class Printer {
  readonly #writer: ByteWriter;
  readonly #format: readonly FormatPart[] | undefined;
  readonly #limit: number;
  readonly #isPlain: boolean;
  printed = 0;

  constructor(
    writer: ByteWriter,
    options: { readonly format: readonly FormatPart[] | undefined; readonly limit: number },
  ) {
    this.#writer = writer;
    this.#format = options.format;
    this.#limit = options.limit;
    this.#isPlain = isPlain(options.format);
  }

  async printAll(consumer: Consumer): Promise<void> {
    for await (const batch of consumer.batches()) {
      this.#printBatch(batch);
      await this.#writer.flush();
      if (this.printed >= this.#limit) return;
    }
  }

  #printBatch(batch: RecordBatchView): void {
    const writer = this.#writer;
    for (const record of batch) {
      if (this.printed >= this.#limit) return;
      this.printed++;
      if (this.#isPlain) {
        if (record.value !== null) writer.bytes(record.value);
        writer.byte(10);
      } else if (this.#format !== undefined) writeRecord(this.#format, record, writer);
      else writer.text(`${JSON.stringify({ _command: "consume", _version: 1, ...recordAsJson(record) })}\n`);
    }
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }
}
