// Entry of a client process of a failover measurement: gets its plan as the first message, and ends when its parent lets go of it.
import { openRealClient, stderrLogger } from "../../cli/client.ts";
import type { ClientPlan, FromClient } from "./messages.ts";
import { startProbe } from "./probe.ts";
import { startSteadyLoad } from "./steady-load.ts";

const CONNECT_MS = 30_000;

const tell = (message: FromClient): void => {
  if (process.connected) process.send?.(message, undefined, {}, () => undefined);
};

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
  const end = plan.kind === "probe" ? startProbe(client, plan, tell) : await startSteadyLoad(client, plan, tell);
  const close = (): void => {
    void end()
      .catch(() => undefined)
      .then(() => client.close())
      .finally(() => process.exit(0));
  };
  process.once("disconnect", close);
  // A parent that let go of it before: nobody has heard of that, and nobody will.
  if (!process.connected) close();
}

process.once("message", (plan: ClientPlan) => void run(plan));
tell({ kind: "hello" });
