// What a request costs in memory beside its bytes (D-26): estimates, from heap snapshots, of what is kept for it until it is answered.
import { API } from "../wire/native/apis.ts";
import type { DecodedRequest } from "../wire/native/protocol.ts";

/** A row, its topic id as text, its place in a parked pass or in the answer. */
const ENTRY_BYTES = 256;
/** The batch's entry in the journal's and the log's books, and the waiting produce. */
const BATCH_BYTES = 256;

export function overheadBytesOf({ header, request }: DecodedRequest): number {
  switch (header.api) {
    case API.PRODUCE:
      return "entries" in request ? request.entries.length * BATCH_BYTES : 0;
    case API.FETCH:
    case API.LIST_OFFSETS:
      return "entries" in request ? request.entries.length * ENTRY_BYTES : 0;
    default:
      return 0;
  }
}
