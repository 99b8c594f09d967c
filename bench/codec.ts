// How fast one core packs and unpacks record batches of 100-byte and 1 KiB records (64 KiB batches, no compression, checksum included),
// by processor time.
import { type BoundedSummary, interleave, summarise } from "./harness.ts";
import { checkProducedBatch } from "../src/model/record-batch.ts";
import { decodeRecords, RecordBatchBuilder } from "../src/model/records.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { loadCodecs } from "../src/platform/codecs.ts";

const BATCH_BYTES = 65_536;
const ROUND_MS = 250;
/** Million records a second per core, the floor; 1 KiB records are bound by copying and have none. */
const FLOOR_MILLIONS = 5;

const checksum = createChecksum();
const codecs = await loadCodecs(["none"]);
const decodeOptions = { checksum, codecs, decompressedBytesMax: BATCH_BYTES };
const limits = { maxBytes: BATCH_BYTES, segmentBytes: 2 ** 30, checksum };

interface Task {
  readonly name: string;
  readonly floorMillions: number | undefined;
  /** Works through one batch and returns its records. */
  readonly run: () => number;
}

/** What is read goes here, so that nothing is optimised away. */
const seen = { sum: 0 };

function tasksFor(valueBytes: number, floorMillions: number | undefined): Task[] {
  const value = new Uint8Array(valueBytes).map((_, at) => at * 7);
  const record = { key: null, value, headers: [], timestamp: 0 };
  const builder = new RecordBatchBuilder({ limitBytes: BATCH_BYTES });
  const encode = (): Uint8Array => {
    builder.reset();
    for (let time = 1_700_000_000_000; ; time += 1) {
      record.timestamp = time;
      if (!builder.tryAppend(record)) break;
    }
    return builder.build({ compression: "none", codecs, checksum });
  };
  const batch = encode();
  const received = Buffer.from(batch); // what a socket gives is a Buffer
  const recordCount = builder.recordCount;
  return [
    { name: `encode ${valueBytes} B`, floorMillions, run: () => (encode().length > 0 ? builder.recordCount : 0) },
    {
      name: `decode ${valueBytes} B to objects`,
      floorMillions,
      run: () => {
        for (const { offset, timestamp, key, value: bytes } of decodeRecords(batch, decodeOptions)) {
          seen.sum += offset + timestamp + (key?.length ?? 0) + (bytes?.length ?? 0);
        }
        return recordCount;
      },
    },
    {
      name: `decode ${valueBytes} B by views`,
      floorMillions,
      run: () => {
        decodeRecords(batch, decodeOptions).forEach((view) => {
          seen.sum += view.offset + (view.value?.length ?? 0);
        });
        return recordCount;
      },
    },
    {
      name: `broker check ${valueBytes} B`,
      floorMillions,
      run: () => (checkProducedBatch(received, limits) === undefined ? recordCount : 0),
    },
  ];
}

/** Milliseconds of processor time this process has used: what others do on the machine at the same time counts less. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function measure(task: Task, forMs: number): number {
  const startedAt = cpuMs();
  let records = 0;
  let elapsedMs = 0;
  while (elapsedMs < forMs) {
    for (let turn = 0; turn < 20; turn++) records += task.run();
    elapsedMs = cpuMs() - startedAt;
  }
  return records / elapsedMs / 1000;
}

/** Millions of records per second of processor time. */
export async function benchCodec(rounds: number): Promise<BoundedSummary[]> {
  const tasks = [...tasksFor(100, FLOOR_MILLIONS), ...tasksFor(1024, undefined)];
  for (const task of tasks) measure(task, ROUND_MS); // warm up
  const variants = tasks.map((task) => ({ name: task.name, run: () => Promise.resolve(measure(task, ROUND_MS)) }));
  const samples = await interleave(variants, rounds);
  return tasks.map(({ name, floorMillions }) => ({
    ...summarise(name, "M rec/s", samples.get(name) ?? []),
    ...(floorMillions === undefined ? {} : { floor: floorMillions }),
  }));
}
