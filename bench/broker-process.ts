// A real broker process for a benchmark: started on a free port in a fresh directory, killed and wiped afterwards.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { withTemporaryDirectory } from "./harness.ts";

const MAIN = join(import.meta.dirname, "../dist/cli/main.js");

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

export interface BrokerProcess {
  readonly address: string;
  readonly directory: string;
  readonly child: ChildProcess;
}

/** `settings` are configuration keys and values. */
export async function withBrokerProcess<T>(
  use: (broker: BrokerProcess) => Promise<T>,
  settings: Readonly<Record<string, string>> = {},
): Promise<T> {
  return withTemporaryDirectory(async (directory) => {
    const address = `127.0.0.1:${await freePort()}`;
    const flags = Object.entries(settings).flatMap(([key, value]) => ["-X", `${key}=${value}`]);
    const args = [
      "--initial-old-space-size=128", // as the launcher and the installed command do
      MAIN,
      "server",
      "start",
      "--node-id",
      "1",
      "--data-dir",
      join(directory, "node-1"),
      "--listeners",
      `ws://${address}`,
      ...flags,
    ];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      log = (log + text).slice(-4000);
    });
    try {
      return await use({ address, directory, child });
    } catch (error) {
      process.stderr.write(`the node's log ends:\n${log}\n`);
      throw error;
    } finally {
      if (child.exitCode === null) {
        child.kill("SIGKILL");
        await once(child, "exit");
      }
    }
  });
}
