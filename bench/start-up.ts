// How long a person waits: `ottla --help`, and from starting a node on an empty directory to its first acknowledged record.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { connect } from "../src/index.ts";
import { interleave, type BoundedSummary, summarise } from "./harness.ts";
import { withBrokerProcess } from "./broker-process.ts";

const MAIN = join(import.meta.dirname, "../dist/cli/main.js");
const HELP_SECONDS_MAX = 0.15;
const FIRST_ACK_SECONDS_MAX = 1;

function helpSeconds(): number {
  const startedAt = performance.now();
  const { status } = spawnSync(process.execPath, [MAIN, "--help"], { stdio: "ignore" });
  if (status !== 0) throw new Error(`--help exited with ${status}`);
  return (performance.now() - startedAt) / 1000;
}

async function firstAckSeconds(): Promise<number> {
  const startedAt = performance.now();
  return withBrokerProcess(async ({ address }) => {
    const client = await connect({ brokers: [address], connectTimeoutMs: 20_000 });
    await client.admin().createTopic("first", { partitions: 1 });
    await client.producer({ acks: "all", lingerMs: 0 }).send("first", { value: "hello" });
    const seconds = (performance.now() - startedAt) / 1000;
    await client.close();
    return seconds;
  });
}

export async function benchStartUp(rounds: number): Promise<BoundedSummary[]> {
  const help = { name: "ottla --help", run: () => Promise.resolve(helpSeconds()) };
  const firstAck = { name: "cold start to first acknowledged record", run: firstAckSeconds };
  const samples = await interleave([help, firstAck], rounds);
  const row = (name: string, most: number): BoundedSummary => ({
    ...summarise(name, "s", samples.get(name) ?? []),
    most,
  });
  return [row(help.name, HELP_SECONDS_MAX), row(firstAck.name, FIRST_ACK_SECONDS_MAX)];
}
