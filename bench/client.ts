// How fast one core runs the client alone: a producer and a consumer against a broker in the same process that answers at once, by
// processor time. What a record costs here is what the library costs, all batching, encoding and checksums included.
import { createRng } from "../src/base/rng.ts";
import { openClient } from "../src/client/client.ts";
import type { Client, Consumer } from "../src/client/types.ts";
import type { NodeId, TopicId, Uuid } from "../src/model/ids.ts";
import { assignOffsets } from "../src/model/record-batch.ts";
import { forEachBatch, RecordBatchBuilder } from "../src/model/records.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { createClock } from "../src/platform/clock.ts";
import { loadCodecs } from "../src/platform/codecs.ts";
import { createTimers } from "../src/platform/timers.ts";
import type { ConnectionHandlers, MessageConnection, MessageTransport } from "../src/ports/transport.ts";
import { API, type ApiKey, type ApiTypes } from "../src/wire/native/apis.ts";
import { encodeResponse, RequestAssembler, SUPPORTED_VERSIONS } from "../src/wire/native/codec.ts";
import type { DecodedRequest, RequestHeader } from "../src/wire/native/protocol.ts";
import { type BoundedSummary, interleave, summarise } from "./harness.ts";

const BATCH_BYTES = 65_536;
const FETCH_BYTES = 1_048_576;
/** More than a consumer holds at a time: what it has been given longer ago may be given again. */
const RUNS = 24;
/** Many times what a producer buffers: filling its buffers for the first time costs more than using them again. */
const BYTES_PER_RUN = 512 * 1024 * 1024;
const TOPIC = "t";
const TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA" as TopicId;
const ADDRESS = "bench:7070";

const checksum = createChecksum();
const codecs = await loadCodecs(["none"]);

type OneOf<Key extends ApiKey> = Extract<DecodedRequest, { readonly header: { readonly api: Key } }>;

/** A run of whole batches of `valueBytes` records, as a fetch answers them. */
function runOf(valueBytes: number): { readonly bytes: Uint8Array; readonly recordsPerBatch: number } {
  const value = new Uint8Array(valueBytes).map((_, at) => at * 7);
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_BYTES });
  while (builder.tryAppend({ key: null, value, headers: [], timestamp: 1_700_000_000_000 }));
  const batch = builder.build({ compression: "none", codecs, checksum });
  const count = Math.floor(FETCH_BYTES / batch.length);
  const bytes = new Uint8Array(count * batch.length);
  for (let index = 0; index < count; index++) bytes.set(batch, index * batch.length);
  return { bytes, recordsPerBatch: builder.recordCount };
}

/** One topic of one partition that takes everything and has the same records without end. */
class InstantBroker implements MessageTransport {
  readonly #runs: readonly Uint8Array[];
  readonly #recordsPerBatch: number;
  #fetchCount = 0;
  #endOffset = 0;

  constructor(valueBytes: number) {
    const { bytes, recordsPerBatch } = runOf(valueBytes);
    this.#runs = Array.from({ length: RUNS }, () => new Uint8Array(bytes));
    this.#recordsPerBatch = recordsPerBatch;
  }

  listen(): never {
    throw new Error("only connects");
  }

  connect(): Promise<MessageConnection> {
    const assembler = new RequestAssembler({ bodyBytesMax: 64 * 1024 * 1024 });
    let handlers: ConnectionHandlers<Uint8Array> | undefined;
    const answer = (messages: readonly Uint8Array[]) =>
      setImmediate(() => {
        for (const message of messages) handlers?.onReceive(message);
      });
    return Promise.resolve({
      remote: ADDRESS,
      unsentBytes: 0,
      start: (given) => {
        handlers = given;
      },
      send: (messages) => {
        for (const message of messages) {
          const assembled = assembler.push(message);
          if (assembled.kind === "broken") throw new Error(assembled.reason);
          if (assembled.kind === "message") answer(this.#serve(assembled.message));
        }
      },
      pause: () => {},
      resume: () => {},
      close: (reason) => setImmediate(() => handlers?.onClose(reason)),
      destroy: () => {},
    });
  }

  #serve(request: DecodedRequest): Uint8Array[] {
    const { header } = request;
    switch (header.api) {
      case API.HELLO:
        return reply(header, {
          clusterId: TOPIC_ID as string as Uuid,
          nodeId: 1 as NodeId,
          brokerEpoch: 1,
          software: "bench",
          apis: SUPPORTED_VERSIONS.map((row) => ({ ...row })),
          messageBytesMax: 100_000_000,
          inFlightBytesMax: 64 * 1024 * 1024,
        });
      case API.METADATA:
        return reply(header, METADATA);
      case API.INIT_PRODUCER_ID:
        return reply(header, { producerId: 1, producerEpoch: 0 });
      case API.PRODUCE:
        return this.#produce(request as OneOf<typeof API.PRODUCE>);
      case API.FETCH:
        return this.#fetch(request as OneOf<typeof API.FETCH>);
      case API.LIST_OFFSETS:
        return reply(header, {
          entries: (request as OneOf<typeof API.LIST_OFFSETS>).request.entries.map(() => ({
            error: "NONE" as const,
            offset: 0,
            timestamp: -1,
            leaderEpoch: 1,
          })),
        });
      default:
        throw new Error(`no answer for api ${header.api}`);
    }
  }

  #produce({ header, request }: OneOf<typeof API.PRODUCE>): Uint8Array[] {
    const entries = request.entries.map(() => ({
      error: "NONE" as const,
      outcome: "appended" as const,
      baseOffset: this.#endOffset++,
      logStartOffset: 0,
      message: null,
    }));
    return reply(header, { entries });
  }

  #fetch({ header, request }: OneOf<typeof API.FETCH>): Uint8Array[] {
    let offset = request.entries[0]?.offset ?? 0;
    const bytes = this.#runs[this.#fetchCount++ % RUNS] as Uint8Array;
    forEachBatch(bytes, (position) => {
      assignOffsets(bytes.subarray(position), offset, 1);
      offset += this.#recordsPerBatch;
    });
    const common = { leaderEpoch: 1, logStartOffset: 0, highWatermark: 2 ** 40, lastStableOffset: 2 ** 40 };
    return reply(header, { entries: [{ index: 0, error: "NONE", ...common, body: 0 }] }, [bytes]);
  }
}

const METADATA: ApiTypes[typeof API.METADATA]["response"] = {
  clusterId: TOPIC_ID as string as Uuid,
  controllerId: 1,
  brokers: [{ nodeId: 1, address: ADDRESS, isFenced: false }],
  topics: [
    {
      name: TOPIC,
      error: "NONE",
      topicId: TOPIC_ID,
      isDeleting: false,
      maxMessageBytes: 1_048_588,
      configs: [],
      partitions: [
        {
          index: 0,
          error: "NONE",
          leader: 1,
          leaderEpoch: 1,
          replicas: [1],
          isr: [1],
          elr: [],
          partitionEpoch: 0,
          minIsr: 1,
          uncleanEpoch: -1,
        },
      ],
    },
  ],
  next: null,
  metadataEnd: 1,
};

function reply<K extends ApiKey>(
  header: RequestHeader & { readonly api: K },
  response: ApiTypes[K]["response"],
  bodies: readonly Uint8Array[] = [],
): Uint8Array[] {
  const { api, version, correlationId } = header;
  return encodeResponse({ api, version, correlationId, more: false, error: "NONE", message: null }, response, bodies);
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

function open(valueBytes: number): Promise<Client> {
  const deps = { clock: createClock(), timers: createTimers(), checksum, codecs, logger: silent, rng: createRng(1) };
  return openClient({ ...deps, transport: new InstantBroker(valueBytes) }, { brokers: [ADDRESS] });
}

/** Milliseconds of processor time: what others do on the machine at the same time counts less. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Millions of records per second of processor time. */
async function measured(records: number, run: () => Promise<void>): Promise<number> {
  const startedAt = cpuMs();
  await run();
  return records / (cpuMs() - startedAt) / 1000;
}

type Pace = (client: Client, records: number) => Promise<void>;

function enqueuing(valueBytes: number): Pace {
  const value = new Uint8Array(valueBytes).map((_, at) => at * 7);
  return async (client, records) => {
    const producer = client.producer({ batchBytes: BATCH_BYTES, bufferBytes: 16 * 1024 * 1024 });
    await producer.prepare(TOPIC);
    for (let count = 0; count < records; count++) {
      const wait = producer.enqueue(TOPIC, { value });
      if (wait !== undefined) await wait;
    }
    await producer.flush();
    await producer.close();
  };
}

function sending(valueBytes: number): Pace {
  const value = new Uint8Array(valueBytes).map((_, at) => at * 7);
  return async (client, records) => {
    const producer = client.producer({ batchBytes: BATCH_BYTES });
    let sends: Promise<unknown>[] = [];
    for (let count = 0; count < records; count++) {
      sends.push(producer.send(TOPIC, { value }));
      if (sends.length < 10_000) continue;
      await Promise.all(sends);
      sends = [];
    }
    await Promise.all(sends);
    await producer.close();
  };
}

/** What is read goes here, so that nothing is optimised away. */
const seen = { sum: 0 };

async function byRecord(consumer: Consumer, records: number): Promise<void> {
  let left = records;
  for await (const { offset, value } of consumer) {
    seen.sum += offset + (value?.length ?? 0);
    if (--left === 0) break;
  }
}

async function byBatch(consumer: Consumer, records: number): Promise<void> {
  let left = records;
  for await (const batch of consumer.batches()) {
    for (const { offset, value } of batch) seen.sum += offset + (value?.length ?? 0);
    left -= batch.recordCount;
    if (left <= 0) break;
  }
}

function consuming(read: (consumer: Consumer, records: number) => Promise<void>): Pace {
  return (client, records) => read(client.consumer({ topics: [TOPIC] }), records);
}

/** A client does each of these on one core, the answering broker's part included. */
export async function benchClient(rounds: number, only = ""): Promise<BoundedSummary[]> {
  const all = [100, 1024].flatMap((valueBytes) => {
    const records = Math.floor(BYTES_PER_RUN / valueBytes);
    const task = (name: string, pace: Pace, share = 1) => ({
      name: `${name} ${valueBytes} B`,
      valueBytes,
      pace,
      records: Math.floor(records * share),
    });
    return [
      task("enqueue", enqueuing(valueBytes)),
      task("send", sending(valueBytes), 0.1),
      task("consume by record", consuming(byRecord)),
      task("consume by batch", consuming(byBatch)),
    ];
  });
  const tasks = all.filter((task) => task.name.includes(only));
  const variants = tasks.map(({ name, valueBytes, pace, records }) => ({
    name,
    run: async () => {
      const client = await open(valueBytes);
      const figure = await measured(records, () => pace(client, records));
      await client.close();
      return figure;
    },
  }));
  const keepAlive = setInterval(() => undefined, 1000); // a broker's timers do not
  for (const variant of variants) await variant.run(); // warm up
  const samples = await interleave(variants, rounds);
  clearInterval(keepAlive);
  return tasks.map(({ name }) => summarise(name, "M rec/s", samples.get(name) ?? []));
}

if (import.meta.filename === process.argv[1]) {
  for (const { name, median } of await benchClient(Number(process.argv[2] ?? 3), process.argv[3]))
    console.log(name, median.toFixed(2));
}
