// A client process that creates topics until its standard input ends. Three loops: a patient one, whose creations take what they need; an
// impatient one, which gives up early and so is often told no; and one that deletes the oldest when there are many, so that the cluster
// stays as it is however long this runs. Each outcome is one JSON line:
//   {"name", "outcome": "ok" | "refused" | "unknown" | "deleted" | "deletion unknown", "topicId", "code", "atMs"}
import { createRng } from "../../src/base/rng.ts";
import { connect, OttlaError } from "../../src/index.ts";

const PATIENT_MS = 30_000;
const IMPATIENT_MS = [5, 20, 60];
const PATIENT_PAUSE_MS = 20;
const IMPATIENT_PAUSE_MS = 80;
const TOPICS_KEPT = 200;

const client = await connect({ brokers: process.argv.slice(2), clientId: "topic-maker" });
const admin = client.admin();
const rng = createRng(Date.now());
/** Created and not deleted, the oldest first. */
const kept: string[] = [];
let isStopping = false;
process.stdin.resume();
process.stdin.once("end", () => {
  isStopping = true;
});

async function make(name: string, timeoutMs: number): Promise<void> {
  try {
    const { topicId } = await admin.createTopic(name, { partitions: 1, timeoutMs });
    kept.push(name);
    tell(name, { outcome: "ok", topicId });
  } catch (thrown) {
    if (!(thrown instanceof OttlaError)) throw thrown;
    // "appended": it was made, but its id was not told. Not set: certainly not made.
    tell(name, { outcome: thrown.outcome === undefined ? "refused" : "unknown", code: thrown.code });
  }
}

async function deleteOldest(): Promise<void> {
  const name = kept.length > TOPICS_KEPT ? kept.shift() : undefined;
  if (name === undefined) return;
  try {
    await admin.deleteTopic(name, { timeoutMs: PATIENT_MS });
    tell(name, { outcome: "deleted" });
  } catch (thrown) {
    if (!(thrown instanceof OttlaError)) throw thrown;
    // Not set: certainly not deleted, so it has to be there still.
    if (thrown.outcome !== undefined) tell(name, { outcome: "deletion unknown", code: thrown.code });
  }
}

function tell(name: string, outcome: Readonly<Record<string, string>>): void {
  process.stdout.write(`${JSON.stringify({ name, ...outcome, atMs: Date.now() })}\n`);
}

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

async function loop(pauseMs: number, act: (number: number) => Promise<void>): Promise<void> {
  for (let number = 0; !isStopping; number++) {
    await act(number);
    await pause(pauseMs);
  }
}

await Promise.all([
  loop(PATIENT_PAUSE_MS, (number) => make(`patient-${number}`, PATIENT_MS)),
  loop(IMPATIENT_PAUSE_MS, (number) => make(`impatient-${number}`, rng.pick(IMPATIENT_MS))),
  loop(PATIENT_PAUSE_MS, deleteOldest),
]);
await client.close();
