// A process of its own for bench/broker-figures.ts: some consumers that read a topic from its oldest to its newest record, over and over, until the
// process is killed. Tells its parent when each has read something. cold-readers.ts ADDRESS TOPIC COUNT
import { connect } from "../src/index.ts";

const [address = "", topic = "", count = "1"] = process.argv.slice(2);
process.on("disconnect", () => process.exit(0));
let waiting = Number(count);

async function readOver(): Promise<void> {
  const client = await connect({ brokers: [address], connectTimeoutMs: 20_000 });
  for (let round = 0; ; round++) {
    let isFirst = round === 0;
    for await (const _ of client.consumer({ topics: [topic], untilEnd: true })) {
      if (isFirst && --waiting === 0) process.send?.("ready");
      isFirst = false;
    }
  }
}

await Promise.all(Array.from({ length: Number(count) }, () => readOver()));
