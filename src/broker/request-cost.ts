// What a request costs in memory beside its bytes (D-26): estimates, from heap snapshots, of what is kept for it until it is answered.
import { API, type ApiKey } from "../wire/native/apis.ts";
import type { DecodedRequest } from "../wire/native/protocol.ts";
import type { AlterPartitionRequest } from "../wire/native/replication-apis.ts";

/** A row, its topic id as text, its place in a parked pass or in the answer. */
const ENTRY_BYTES = 256;
/** The batch's entry in the journal's and the log's books, and the waiting produce. */
const BATCH_BYTES = 256;
/** A member of a wished ISR. */
const MEMBER_BYTES = 64;

export function overheadBytesOf({ header, request }: DecodedRequest): number {
  switch (header.api) {
    case API.PRODUCE:
      return "entries" in request ? request.entries.length * BATCH_BYTES : 0;
    case API.FETCH:
    case API.LIST_OFFSETS:
      return "entries" in request ? request.entries.length * ENTRY_BYTES : 0;
    case API.ALTER_PARTITION:
      return wishBytesOf(request as AlterPartitionRequest);
    default:
      return 0;
  }
}

function wishBytesOf({ entries }: AlterPartitionRequest): number {
  return entries.reduce((sum, { isr }) => sum + ENTRY_BYTES + isr.length * MEMBER_BYTES, 0);
}

const KiB = 1024;
/** Rows with names, values or messages for people, at their usual length. */
const ROWS_BYTES = 8 * KiB;

/**
 * What is set aside for the answer while a request is worked on, so that a peer that takes none is not given more and more of them. Those whose
 * answers may be large ask for room themselves before they make one, and have little or nothing here.
 */
const ANSWER_BYTES: Readonly<Partial<Record<ApiKey, number>>> = {
  [API.FETCH]: 0,
  [API.FETCH_METADATA]: 0,
  [API.RAFT]: 0,
  [API.REPLICA_FETCH]: 0,
  [API.DURABLE_REPORT]: 0,
  [API.PRODUCE]: 256,
  [API.METADATA]: 4 * KiB,
  [API.LIST_OFFSETS]: 4 * KiB,
  [API.CREATE_TOPICS]: ROWS_BYTES,
  [API.DELETE_TOPICS]: ROWS_BYTES,
  [API.DESCRIBE_CONFIGS]: ROWS_BYTES,
  [API.DESCRIBE_QUORUM]: ROWS_BYTES,
  [API.VOTER_HELLO]: ROWS_BYTES,
};

export function answerBytesOf(api: ApiKey): number {
  return ANSWER_BYTES[api] ?? KiB;
}
