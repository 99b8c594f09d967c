// A client for one partition: a small record with acks=all every few milliseconds by a schedule, whatever became of those before.
import { machineMs } from "../../chaos/machine-clock.ts";
import type { Client } from "../../client/types.ts";
import { OttlaError } from "../../model/errors.ts";
import type { FromClient, ProbePlan } from "./messages.ts";

const EVERY_MS = 20;
/** Bound. What is due beyond it is not sent, and not made up for. */
const OUTSTANDING_MAX = 1_000;
const DELIVERY_MS = 30_000;

/** Returns what ends it. */
export function startProbe(client: Client, plan: ProbePlan, tell: (message: FromClient) => void): () => Promise<void> {
  const { topic, partition } = plan;
  const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: DELIVERY_MS });
  let outstanding = 0;
  let count = 0;
  const send = async (dueMs: number): Promise<void> => {
    outstanding++;
    try {
      await producer.send(topic, { partition, value: `p${partition} ${count++}` }, { acks: "all" });
      tell({ kind: "acknowledged", dueMs, atMs: machineMs() });
    } catch (thrown) {
      if (!(thrown instanceof OttlaError)) throw thrown;
      tell({ kind: "failed", what: `${thrown.code} ${thrown.outcome ?? "not appended"}` });
    } finally {
      outstanding--;
    }
  };
  let dueMs = machineMs();
  const timer = setInterval(() => {
    for (const nowMs = machineMs(); dueMs <= nowMs; dueMs += EVERY_MS)
      if (outstanding < OUTSTANDING_MAX) void send(dueMs);
  }, EVERY_MS / 2);
  return async () => {
    clearInterval(timer);
    await producer.close({ timeoutMs: 2_000 });
  };
}
