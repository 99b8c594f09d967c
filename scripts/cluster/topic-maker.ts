// A client process that creates topics as fast as they come, until its standard input ends. Two loops: a patient one, whose creations take
// what they need, and an impatient one, which gives up early and so is often told no. Each outcome is one JSON line:
//   {"name", "outcome": "ok" | "refused" | "unknown", "topicId", "code", "atMs"}
import { createRng } from "../../src/base/rng.ts";
import { connect, OttlaError } from "../../src/index.ts";

const PATIENT_MS = 30_000;
const IMPATIENT_MS = [5, 20, 60];
const PATIENT_PAUSE_MS = 10;
const IMPATIENT_PAUSE_MS = 15;

const client = await connect({ brokers: process.argv.slice(2), clientId: "topic-maker" });
const admin = client.admin();
const rng = createRng(Date.now());
let isStopping = false;
process.stdin.resume();
process.stdin.once("end", () => {
  isStopping = true;
});

async function make(name: string, timeoutMs: number): Promise<void> {
  try {
    const { topicId } = await admin.createTopic(name, { partitions: 1, timeoutMs });
    tell(name, { outcome: "ok", topicId });
  } catch (thrown) {
    if (!(thrown instanceof OttlaError)) throw thrown;
    // "appended": it was made, but its id was not told. Not set: certainly not made.
    tell(name, { outcome: thrown.outcome === undefined ? "refused" : "unknown", code: thrown.code });
  }
}

function tell(name: string, outcome: Readonly<Record<string, string>>): void {
  process.stdout.write(`${JSON.stringify({ name, ...outcome, atMs: Date.now() })}\n`);
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

async function loop(prefix: string, pauseMs: number, timeoutMs: () => number): Promise<void> {
  for (let number = 0; !isStopping; number++) {
    await make(`${prefix}-${number}`, timeoutMs());
    await pause(pauseMs);
  }
}

await Promise.all([
  loop("patient", PATIENT_PAUSE_MS, () => PATIENT_MS),
  loop("impatient", IMPATIENT_PAUSE_MS, () => rng.pick(IMPATIENT_MS)),
]);
await client.close();
