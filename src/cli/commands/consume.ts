// ottla consume: records of topics to stdout, as they are or in a format.
import type { Client, Consumer, ConsumerOptions, RecordBatchView } from "../../client/types.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { ByteWriter } from "../byte-writer.ts";
import { withClient } from "../client.ts";
import { type FormatPart, parseFormat, recordAsJson, writeRecord } from "../format.ts";
import type { Invocation } from "../invocation.ts";
import { onStopSignals } from "../signals.ts";
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
  const options: ConsumerOptions = {
    topics: args,
    from: parseStartPosition(flags.offset, Date.now()),
    untilEnd: flags.exitAtEnd === true,
    signal: abort.signal,
    ...(flags.partitions === undefined ? {} : { partitions: parsePartitions(flags.partitions) }),
  };
  const limit = flags.count === undefined ? Number.POSITIVE_INFINITY : parseInteger(flags.count, "--count", { min: 1 });
  const format = output.isJson ? undefined : parseFormat(flags.format ?? "%v\\n");
  const print = async (client: Client): Promise<number> => {
    const consumer = client.consumer(options);
    const printer = new Printer(new ByteWriter(process.stdout), { format, limit });
    const off = onStopSignals({ onFirst: () => abort.abort(), onAgain: () => process.exit(EXIT.SIGINT) });
    try {
      await printer.printAll(consumer);
      output.note(counted(printer.printed, "record"));
      return abort.signal.aborted ? EXIT.SIGINT : EXIT.OK;
    } catch (thrown) {
      if (!abort.signal.aborted) throw thrown;
      return EXIT.SIGINT;
    } finally {
      off();
      await printer.flush();
      await consumer.close();
    }
  };
  // Which codecs the batches are in is not known before they are read.
  return withClient(flags, print, ["none", "gzip", "snappy", "lz4", "zstd"]);
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
