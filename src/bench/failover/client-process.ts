// Entry of a client process of a failover measurement: gets its plan as the first message, and ends when its parent lets go of it.
import { openRealClient, stderrLogger } from "../../cli/client.ts";
import type { ClientPlan, FromClient } from "./messages.ts";
import { startProbe } from "./probe.ts";
import { startSteadyLoad } from "./steady-load.ts";

const CONNECT_MS = 30_000;

const tell = (message: FromClient): void => {
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
};

/** What is to be ended first; nothing is open before there is something. */
let end = (): Promise<void> => Promise.resolve();

async function run(plan: ClientPlan): Promise<void> {
  const logger = stderrLogger({ verbosity: -1, isJson: false });
  const clientId = plan.kind === "probe" ? `probe-${plan.partition}` : "load";
  const client = await openRealClient({
    brokers: plan.brokers,
    clientId,
    connectTimeoutMs: CONNECT_MS,
    codecs: [],
    logger,
  });
  const stop = plan.kind === "probe" ? startProbe(client, plan, tell) : await startSteadyLoad(client, plan, tell);
  end = async () => {
    await stop().catch(() => undefined);
    await client.close();
  };
}

process.once("disconnect", () => void end().finally(() => process.exit(0)));
process.once("message", (plan: ClientPlan) => void run(plan));
tell({ kind: "hello" });
