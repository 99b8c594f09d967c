// A real broker process for a benchmark: started on a free port in a fresh directory, killed and wiped afterwards. Nobody waits until it is ready:
// that is part of what some of them measure.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { drawFreePorts } from "../src/cli/free-ports.ts";
import { NODE_HEAP } from "../src/cli/node-child.ts";
import { withTemporaryDirectory } from "./harness.ts";

const MAIN = join(import.meta.dirname, "../dist/cli/main.js");

export interface BrokerProcess {
  readonly address: string;
  readonly directory: string;
  readonly child: ChildProcess;
}

export interface NodePlan {
  readonly id: number;
  readonly address: string;
  readonly directory: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** `settings` are configuration keys and values. */
export function withBrokerProcess<T>(
  use: (broker: BrokerProcess) => Promise<T>,
  settings: Readonly<Record<string, string>> = {},
): Promise<T> {
  return withBrokerProcesses(1, ([broker]) => use(present(broker)), settings);
}

/** Node i + 1 is the i-th; all of them vote. */
export function withBrokerProcesses<T>(
  count: number,
  use: (brokers: readonly BrokerProcess[]) => Promise<T>,
  settings: Readonly<Record<string, string>> = {},
): Promise<T> {
  return withTemporaryDirectory(async (root) => {
    const ports = await drawFreePorts(count);
    const plans = ports.map(
      (port, index): NodePlan => ({
        id: index + 1,
        address: `127.0.0.1:${port}`,
        directory: join(root, `node-${index + 1}`),
        settings,
      }),
    );
    const voters = plans.map(({ id, address }) => `${id}@${address}`).join(",");
    const quorum: Record<string, string> = count === 1 ? {} : { "controller.quorum.voters": voters };
    const nodes = plans.map((plan) => startNode({ ...plan, settings: { ...quorum, ...plan.settings } }));
    try {
      return await use(nodes.map(({ broker }) => broker));
    } catch (error) {
      for (const { broker, log } of nodes) process.stderr.write(`the log of ${broker.address} ends:\n${log()}\n`);
      throw error;
    } finally {
      await Promise.all(nodes.map(({ broker }) => killed(broker.child)));
    }
  });
}

/** Its directory stays: it can be started again. */
export function startNode({ id, address, directory, settings }: NodePlan): {
  readonly broker: BrokerProcess;
  readonly log: () => string;
} {
  const flags = Object.entries(settings).flatMap(([key, value]) => ["-X", `${key}=${value}`]);
  const place = ["--node-id", String(id), "--data-dir", directory, "--listeners", `ws://${address}`];
  const args = [...NODE_HEAP, MAIN, "server", "start", ...place, ...flags];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log = (log + text).slice(-4000);
  });
  return { broker: { address, directory, child }, log: () => log };
}

/** Unless it has ended. */
export async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("no broker");
  return value;
}
