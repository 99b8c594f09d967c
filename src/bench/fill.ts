// Writes what a consumer benchmark is to read, and waits until all of it can be read.
import type { Client } from "../client/types.ts";
import { OttlaError } from "../model/errors.ts";
import { Payload } from "./load/payload.ts";

export interface Fill {
  readonly topic: string;
  readonly partitions: number;
  readonly recordBytes: number;
  readonly batchBytes: number;
  readonly totalBytes: number;
  readonly signal: AbortSignal;
}

/** Looked at once for so many records. */
const LOOK_EVERY = 1000;

/** Every partition gets a record at least. */
export async function fillTopic(client: Client, fill: Fill): Promise<void> {
  const { topic, partitions, recordBytes, batchBytes, totalBytes, signal } = fill;
  let failure: OttlaError | undefined;
  const producer = client.producer({
    acks: "all",
    batchBytes,
    onBatch: ({ error }) => {
      failure ??= error;
    },
  });
  await producer.prepare(topic);
  const payload = new Payload(recordBytes);
  const records = Math.max(partitions, Math.ceil(totalBytes / recordBytes));
  const turn = Math.max(1, Math.min(Math.floor(batchBytes / recordBytes), Math.floor(records / partitions)));
  for (let sent = 0; sent < records; sent++) {
    if (sent % LOOK_EVERY === 0 && (failure !== undefined || signal.aborted)) break;
    const room = producer.enqueue(topic, { value: payload.next(), partition: Math.floor(sent / turn) % partitions });
    if (room !== undefined) await room;
  }
  await producer.close({ timeoutMs: 30_000 });
  if (failure !== undefined) throw new OttlaError(failure.code, `${topic} could not be filled: ${failure.message}`);
}
