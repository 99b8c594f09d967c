// ottla log dump of an image of producers: what a partition remembered of each when it was made.
import { addSequence } from "../../model/batch-header.ts";
import type { Fault, InspectDeps } from "../../storage/inspect-types.ts";
import { readProducersFile } from "../../storage/inspect-producers.ts";
import type { Output } from "../output.ts";

const HEADERS = ["PRODUCER", "EPOCH", "BATCHES", "FIRST SEQUENCE", "LAST SEQUENCE", "BASE", "LAST", "CARRIED AT"];

/** Gives the count of producers, or the fault of a damaged file. */
export async function dumpProducers(deps: InspectDeps, file: string, output: Output): Promise<number | Fault> {
  const found = await readProducersFile(deps, file);
  if (!("image" in found)) return found;
  const { image, forgottenMaxId, producers } = found;
  if (output.isJson) {
    output.json("log.dump", { part: "image", ...image, forgottenMaxId });
    for (const producer of producers) output.json("log.dump", { part: "producer", ...producer });
    return producers.length;
  }
  const rows = producers.map(({ producerId, producerEpoch, batches, carriedOffset }) => {
    const [first, last] = [batches[0], batches.at(-1)];
    if (first === undefined || last === undefined) return [];
    const lastSequence = addSequence(last.baseSequence, last.lastOffset - last.baseOffset);
    const cells = [producerId, producerEpoch, batches.length, first.baseSequence, lastSequence];
    const carried = carriedOffset < 0 ? "-" : String(carriedOffset);
    return [...[...cells, first.baseOffset, last.lastOffset].map(String), carried];
  });
  output.table({ headers: HEADERS, rows, right: HEADERS.map((_, column) => column) });
  output.note(`of log ${image.logId} up to offset ${image.endOffset}, epoch ${image.epoch} before it`);
  if (forgottenMaxId >= 0) output.note(`others made room for these, or expired: ids up to ${forgottenMaxId}`);
  return producers.length;
}
