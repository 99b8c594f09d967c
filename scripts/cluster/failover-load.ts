// The load of a measurement: so many records a second of so many bytes, evenly over all partitions of a topic, acks=all, in batches as any client makes
// them. What the cluster does not take in time is not made up for. Every half second a line: `<machine ms> <records acknowledged> <records failed>`.
// Arguments: topic, partitions, records per second, bytes per record, brokers. Ends with its standard input.
import { connect } from "../../src/index.ts";
import { machineMs } from "./line-child.ts";

const EVERY_MS = 10;
const TELL_MS = 500;
/** Bound: seconds of load that may be unacknowledged. */
const BEHIND_S = 2;

const [topic = "", partitionsText, perSecondText, bytesText, ...brokers] = process.argv.slice(2);
const [partitions, perSecond, bytes] = [Number(partitionsText), Number(perSecondText), Number(bytesText)];
const client = await connect({ brokers, clientId: "load" });
let acknowledged = 0;
let failed = 0;
let sent = 0;
const producer = client.producer({
  lingerMs: 20,
  onBatch: ({ recordCount, error }) => {
    if (error === undefined) acknowledged += recordCount;
    else failed += recordCount;
  },
});
await producer.prepare(topic);
const value = Buffer.alloc(bytes, "x");
let isFull = false;

function sendShare(count: number): void {
  for (let made = 0; made < count && !isFull; made++) {
    const isBehind = sent - acknowledged - failed > perSecond * BEHIND_S;
    if (isBehind) return;
    const room = producer.enqueue(topic, { partition: sent++ % partitions, value }, { acks: "all" });
    if (room === undefined) continue;
    isFull = true;
    void room.then(() => {
      isFull = false;
    });
  }
}

let lastMs = machineMs();
/** Records that are due and not sent. */
let due = 0;
const sending = setInterval(() => {
  const nowMs = machineMs();
  due = Math.min(due + ((nowMs - lastMs) / 1_000) * perSecond, perSecond / 5);
  lastMs = nowMs;
  const count = Math.floor(due);
  due -= count;
  sendShare(count);
}, EVERY_MS);
const telling = setInterval(() => console.log(`${machineMs().toFixed(0)} ${acknowledged} ${failed}`), TELL_MS);
process.stdin.resume();
process.stdin.once("end", () => {
  clearInterval(sending);
  clearInterval(telling);
  void producer
    .close({ timeoutMs: 2_000 })
    .catch(() => undefined)
    .then(() => client.close())
    .then(() => process.exit(0));
});
