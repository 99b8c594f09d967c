// The load of a measurement: so many records a second of so many bytes, evenly over all partitions of a topic, acks=all, in batches as any client makes
// them. What the cluster does not take in time is not made up for.
import { machineMs } from "../../chaos/machine-clock.ts";
import type { Client } from "../../client/types.ts";
import type { FromClient, SteadyPlan } from "./messages.ts";

const EVERY_MS = 10;
const TELL_MS = 100;
/** Bound: seconds of load that may be unacknowledged. */
const BEHIND_S = 2;

/** Returns what ends it. */
export async function startSteadyLoad(
  client: Client,
  plan: SteadyPlan,
  tell: (message: FromClient) => void,
): Promise<() => Promise<void>> {
  const { topic, partitions, recordsPerSecond, recordBytes } = plan;
  let [acknowledged, failed, sent] = [0, 0, 0];
  const producer = client.producer({
    lingerMs: 20,
    onBatch: ({ recordCount, error }) => {
      if (error === undefined) acknowledged += recordCount;
      else failed += recordCount;
    },
  });
  await producer.prepare(topic);
  const value = Buffer.alloc(recordBytes, "x");
  let isFull = false;
  const sendShare = (count: number): void => {
    for (let made = 0; made < count && !isFull; made++) {
      if (sent - acknowledged - failed > recordsPerSecond * BEHIND_S) return;
      const room = producer.enqueue(topic, { partition: sent++ % partitions, value }, { acks: "all" });
      if (room === undefined) continue;
      isFull = true;
      void room.then(() => {
        isFull = false;
      });
    }
  };
  let lastMs = machineMs();
  /** Records that are due and not sent. */
  let due = 0;
  const sending = setInterval(() => {
    const nowMs = machineMs();
    due = Math.min(due + ((nowMs - lastMs) / 1_000) * recordsPerSecond, recordsPerSecond / 5);
    lastMs = nowMs;
    const count = Math.floor(due);
    due -= count;
    sendShare(count);
  }, EVERY_MS);
  const telling = setInterval(() => tell({ kind: "progress", atMs: machineMs(), acknowledged, failed }), TELL_MS);
  return async () => {
    clearInterval(sending);
    clearInterval(telling);
    await producer.close({ timeoutMs: 2_000 }).catch(() => undefined);
  };
}
