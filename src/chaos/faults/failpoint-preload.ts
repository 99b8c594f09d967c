// Loaded first by a node that is to die at a failpoint: OTTLA_FAILPOINT=name[:n] brings the process to its end (SIGABRT) the n-th time that it comes there.
import { writeSync } from "node:fs";
import { onFailpoint } from "../../base/failpoint.ts";
import { type FailpointWish, parseFailpoint } from "./failpoint-wish.ts";

armFailpoint(parseFailpoint(process.env["OTTLA_FAILPOINT"] ?? ""));

function armFailpoint({ name, count }: FailpointWish): void {
  let left = count;
  onFailpoint((reached) => {
    if (reached !== name || --left > 0) return;
    // Nothing else of this process may go on: no handler, no write that waits.
    writeSync(process.stderr.fd, `failpoint ${name}\n`);
    process.abort();
  });
}
