// A client process that reads: tails some topic in sessions, reads it from the start now and then, and asks where it ends.
import type { Client, Consumer, StartPosition } from "../../client/types.ts";
import { asOttlaError } from "../../model/errors.ts";
import { sumOf, valueOf } from "../../checkers/named-records.ts";
import { machineMs } from "../machine-clock.ts";
import type { ClientLife } from "./life.ts";
import type { ReaderRole } from "./order.ts";

const ASK_EVERY_MS = 500;
const ASK_MS = 1_000;
const PAUSE_MS = 50;

export async function runReader(life: ClientLife, role: ReaderRole): Promise<void> {
  const client = await life.client();
  await Promise.all([readAgainAndAgain(life, role, client), askAgainAndAgain(life, client)]);
}

async function readAgainAndAgain(life: ClientLife, role: ReaderRole, client: Client): Promise<void> {
  for (let session = 0; !life.isStopping; session++) {
    const { rng, order } = life;
    const isReread = rng.chance(role.rereadChance);
    const from = rng.pick<StartPosition>(["end", { fromEnd: 100 }, { fromEnd: 1_000 }]);
    const consumer = client.consumer({
      topics: [rng.pick(order.topics).name],
      from: isReread ? "start" : from,
      untilEnd: isReread,
      maxWaitMs: rng.pick([20, 200, 500]),
      onOutOfRange: "error",
    });
    const end = () => void consumer.close();
    const timer = setTimeout(end, rng.between(...role.sessionMs));
    const takeBack = life.onStop(end);
    try {
      await recordReads(consumer, life, `${order.process} session ${session}`);
    } catch (thrown) {
      life.countError("read", asOttlaError(thrown));
    }
    clearTimeout(timer);
    takeBack();
    await consumer.close();
    await life.wait(PAUSE_MS);
  }
}

export interface Recorder extends Pick<ClientLife, "record" | "checksum" | "count"> {
  /** Of each record, in order. */
  keep?(partition: number, offset: number, value: string): void;
}

/** Every record until the iteration ends, one after the other. */
export async function recordReads(consumer: Consumer, to: Recorder, process: string, fromOffset = 0): Promise<void> {
  const last = new Map<number, number>();
  for await (const batch of consumer.batches())
    for (const each of batch) {
      const { topic, partition, offset } = each;
      const afterOffset = last.get(partition);
      last.set(partition, offset);
      const value = valueOf(each.value);
      to.keep?.(partition, offset, value);
      to.record({
        type: "read",
        process,
        ...{ topic, partition, offset, value, sum: sumOf(each, to.checksum) },
        highWatermark: batch.highWatermark,
        fromOffset,
        ...(afterOffset === undefined ? {} : { afterOffset }),
      });
      to.count("read");
    }
}

/** As one that looks for its lag does. */
async function askAgainAndAgain(life: ClientLife, client: Client): Promise<void> {
  const { order, rng } = life;
  while (!life.isStopping) {
    await life.wait(rng.between(ASK_EVERY_MS / 2, ASK_EVERY_MS * 2));
    const topic = rng.pick(order.topics).name;
    const invokedMs = machineMs();
    try {
      for (const { partition, endOffset } of await client.admin().offsets(topic, { timeoutMs: ASK_MS }))
        life.record({ type: "latest", invokedMs, process: order.process, topic, partition, endOffset });
    } catch (thrown) {
      life.countError("question", asOttlaError(thrown));
    }
  }
}
