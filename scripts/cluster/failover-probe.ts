// A client process of its own for one partition: a small record with acks=all every few milliseconds, whatever became of those before. Lines:
//   a <machine ms> <offset>      acknowledged
//   e <machine ms> <code> <outcome>
// Arguments: topic, partition, brokers. Ends with its standard input.
import { connect, OttlaError } from "../../src/index.ts";
import { machineMs } from "./line-child.ts";

const EVERY_MS = 20;
/** Bound. */
const OUTSTANDING_MAX = 1_000;
const DELIVERY_MS = 30_000;

const [topic = "", partition = "0", ...brokers] = process.argv.slice(2);
const client = await connect({ brokers, clientId: `probe-${partition}` });
const producer = client.producer({ lingerMs: 0, deliveryTimeoutMs: DELIVERY_MS });
let outstanding = 0;
let count = 0;

async function send(value: string): Promise<void> {
  outstanding++;
  try {
    const { offset } = await producer.send(topic, { partition: Number(partition), value }, { acks: "all" });
    console.log(`a ${machineMs().toFixed(1)} ${offset}`);
  } catch (thrown) {
    if (!(thrown instanceof OttlaError)) throw thrown;
    console.log(`e ${machineMs().toFixed(1)} ${thrown.code} ${thrown.outcome ?? "not appended"}`);
  } finally {
    outstanding--;
  }
}

const timer = setInterval(() => {
  if (outstanding < OUTSTANDING_MAX) void send(`p${partition} ${count++}`);
}, EVERY_MS);
process.stdin.resume();
process.stdin.once("end", () => {
  clearInterval(timer);
  void producer
    .close({ timeoutMs: 2_000 })
    .then(() => client.close())
    .then(() => process.exit(0));
});
