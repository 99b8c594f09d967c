// A client process of a run: `node main.js '<order as JSON>'`. It ends when it is told to, or when its parent does.
import type { ClientOrder, ClientRole, FromClient, ToClient } from "./order.ts";
import { ClientLife, tell } from "./life.ts";
import { runLoad } from "./load.ts";
import { runMetadata } from "./metadata.ts";
import { runReader } from "./reader.ts";

const TELL_EVERY_MS = 200;

function run(life: ClientLife, role: ClientRole): Promise<void> {
  switch (role.kind) {
    case "load":
      return runLoad(life, role);
    case "reader":
      return runReader(life, role);
    case "metadata":
      return runMetadata(life, role);
  }
}

const order = JSON.parse(process.argv[2] ?? "") as ClientOrder;
const life = new ClientLife(order);
process.on("message", ({ kind }: ToClient) => {
  if (kind === "stop") life.stop();
});
process.on("disconnect", () => process.exit(1));
// A parent that ended while this file was loaded: nobody has heard of that, and nobody will.
if (!process.connected) process.exit(1);
const telling = setInterval(() => tell({ kind: "counts", counts: life.counts }), TELL_EVERY_MS);
try {
  await run(life, order.role);
  await life.close();
  clearInterval(telling);
  process.send?.({ kind: "counts", counts: life.counts } satisfies FromClient, undefined, {}, () => process.exit(0));
} catch (error) {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.send?.({ kind: "bug", message } satisfies FromClient, undefined, {}, () => process.exit(1));
}
