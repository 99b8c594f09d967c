// What `npm run fuzz` feeds damaged bytes to: every decoder that reads bytes from outside the process. A decoder may refuse with
// a coded error and nothing else: no other exception, no wrong acceptance, no call that takes long.
import type { Rng } from "../src/base/rng.ts";
import { bytesEqual, utf8Encode, writeU32 } from "../src/base/bytes.ts";
import type { CompressionName } from "../src/ports/codecs.ts";
import type { BrokerEpoch, NodeId, TopicId, Uuid } from "../src/model/ids.ts";
import { OttlaError } from "../src/model/errors.ts";
import { ProducerTable } from "../src/model/producer-table.ts";
import { checkProducedBatch, checkStoredBatch, recordCountAt } from "../src/model/record-batch.ts";
import { decodeRecords, RecordBatchBuilder } from "../src/model/records.ts";
import { decodeCommand, encodeCommand } from "../src/metadata/codec.ts";
import { MetadataImage } from "../src/metadata/image.ts";
import type { MetadataRecord } from "../src/metadata/records.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { loadCodecs } from "../src/platform/codecs.ts";
import { API } from "../src/wire/native/apis.ts";
import type { RaftMessage, RaftRequest } from "../src/wire/native/quorum-apis.ts";
import { encodeRequest, encodeResponse, RequestAssembler, ResponseAssembler } from "../src/wire/native/codec.ts";

export interface FuzzTarget {
  readonly name: string;
  /** Valid inputs, which the fuzzer damages. */
  readonly samples: readonly Uint8Array[];
  /** Repairs what a checksum would otherwise always refuse, so that the code behind it is reached too. */
  readonly repair?: (bytes: Uint8Array) => void;
  /** Throws for anything but acceptance; a refusal is an OttlaError. Returns what is wrong with an acceptance. */
  readonly feed: (bytes: Uint8Array, isRepaired: boolean) => string | undefined | Promise<string | undefined>;
  /** A file of a data directory. */
  readonly isFile?: boolean;
  /** A whole directory with one damaged file: far slower, so it is fed less. */
  readonly isDirectory?: boolean;
}

const BODY_BYTES_MAX = 64 * 1024;
const DECOMPRESSED_BYTES_MAX = 1024 * 1024;
const CRC_AT = 17;
const CRC_START = 21;
const TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ" as TopicId;
const VOTER = `1:${TOPIC}`;

export async function fuzzTargets(rng: Rng): Promise<FuzzTarget[]> {
  const checksum = createChecksum();
  const codecs = await loadCodecs();
  const batch = (compression: CompressionName): Uint8Array => {
    const builder = new RecordBatchBuilder({ limitBytes: 16 * 1024 });
    for (let index = 0; index < 12; index++) builder.tryAppend(sampleRecord(rng, index));
    return builder.build({ compression, codecs, checksum });
  };
  const batches = (["none", "gzip", "snappy", "lz4", "zstd"] as const).map(batch);
  const decode = { checksum, codecs, decompressedBytesMax: DECOMPRESSED_BYTES_MAX };
  const repair = (bytes: Uint8Array): void => {
    if (bytes.length >= CRC_START) writeU32(bytes, CRC_AT, checksum.crc32c(bytes.subarray(CRC_START)));
  };
  return [
    { name: "request envelope", samples: requests(batches), feed: (bytes) => assemble(bytes, RequestAssembler) },
    { name: "response envelope", samples: responses(), feed: (bytes) => assemble(bytes, ResponseAssembler) },
    { name: "producers of a partition", samples: producerTables(), feed: feedProducers },
    { name: "metadata command", samples: metadataCommands(), feed: (bytes) => void decodeCommand(bytes, 0) },
    {
      name: "metadata snapshot",
      samples: metadataSnapshots(),
      feed: (bytes) =>
        bytesEqual(MetadataImage.load(bytes).encode(), bytes) ? undefined : "other bytes than were given",
    },
    {
      name: "produced batch",
      samples: batches,
      repair,
      feed: (bytes) => {
        const fault = checkProducedBatch(bytes, { maxBytes: BODY_BYTES_MAX, segmentBytes: BODY_BYTES_MAX, checksum });
        if (fault !== undefined) throw new OttlaError(fault.error, fault.message);
        const isPlain = ((bytes[CRC_START + 1] ?? 0) & 7) === 0;
        return isPlain ? countFault(bytes, decode) : undefined;
      },
    },
    { name: "consumed batch", samples: batches, repair, feed: (bytes) => countFault(bytes, decode) },
    {
      name: "stored batch",
      samples: batches,
      repair,
      feed: (bytes) => {
        const check = checkStoredBatch(bytes, 0, { end: bytes.length, checksum });
        if (check.kind !== "valid") throw new OttlaError("CORRUPT_MESSAGE");
        return check.sizeBytes > bytes.length ? "a batch longer than its bytes" : undefined;
      },
    },
  ];
}

function producerTables(): Uint8Array[] {
  return [1, 3, 8].map((producers) => {
    const table = new ProducerTable();
    for (let at = 0; at < 30; at++) {
      const sequence = { producerId: at % producers, producerEpoch: 0, baseSequence: at };
      table.observe({ ...sequence, baseOffset: at * 2, lastOffset: at * 2 + 1, crc: at - 15 });
    }
    return table.encode();
  });
}

function feedProducers(bytes: Uint8Array): string | undefined {
  const table = ProducerTable.decode(bytes, 60);
  if (table === undefined) throw new OttlaError("CORRUPT_MESSAGE");
  return bytesEqual(table.encode(), bytes) ? undefined : "other bytes than were given";
}

function countFault(bytes: Uint8Array, options: Parameters<typeof decodeRecords>[1]): string | undefined {
  const records = decodeRecords(bytes, options);
  if (records.isControl) return undefined; // its records are the broker's own: a consumer is given none (D-33)
  let count = 0;
  for (const record of records) count += record.headers.length >= 0 ? 1 : 0;
  const claimed = recordCountAt(bytes, 0);
  return count === claimed ? undefined : `${count} records, the header says ${claimed}`;
}

interface AnyAssembler {
  readonly owesBodies: boolean;
  push(message: Uint8Array): { readonly kind: "incomplete" | "message" | "broken" };
}

/** A fresh connection that gets this envelope and, as long as bodies are owed, a few bodies. */
function assemble(
  bytes: Uint8Array,
  Assembler: new (options: { bodyBytesMax: number }) => AnyAssembler,
): string | undefined {
  const assembler = new Assembler({ bodyBytesMax: BODY_BYTES_MAX });
  let { kind } = assembler.push(bytes);
  if (kind === "broken") throw new OttlaError("BAD_ENVELOPE");
  for (let bodies = 0; bodies < 4 && assembler.owesBodies && kind === "incomplete"; bodies++) {
    ({ kind } = assembler.push(new Uint8Array(bodies * 7)));
  }
  return kind === "incomplete" && !assembler.owesBodies
    ? "neither refused nor complete, and no body is owed"
    : undefined;
}

function sampleRecord(rng: Rng, index: number): Parameters<RecordBatchBuilder["tryAppend"]>[0] {
  const value = new Uint8Array(rng.below(200));
  rng.fill(value);
  return {
    key: index % 3 === 0 ? null : utf8Encode(`key-${index}`),
    value: index % 5 === 4 ? null : value,
    headers:
      index % 2 === 0
        ? []
        : [
            ["trace", utf8Encode("x")],
            ["empty", null],
          ],
    timestamp: 1_700_000_000_000 + index,
  };
}

const header = { version: 0, correlationId: 7, deadlineMs: 1000 };

const first = (messages: readonly Uint8Array[]): Uint8Array => messages[0] ?? new Uint8Array(0);

function requests(batches: readonly Uint8Array[]): Uint8Array[] {
  const entries = batches.map((_, partition) => ({
    topicId: TOPIC,
    partition,
    leaderEpoch: 3,
    isResent: partition > 0,
  }));
  const fetches = entries.map((entry) => ({ ...entry, offset: 2 ** 40, maxBytes: 1024 }));
  return [
    encodeRequest({ ...header, api: API.HELLO }, { clientId: "fuzz", software: "fuzz 1" }, []),
    encodeRequest({ ...header, api: API.METADATA }, { topics: ["a", "b"], after: null, barrier: false }, []),
    encodeRequest({ ...header, api: API.PRODUCE }, { acks: -1, timeoutMs: 1000, entries }, batches),
    encodeRequest({ ...header, api: API.FETCH }, { maxWaitMs: 1, minBytes: 1, maxBytes: 9, entries: fetches }, []),
    encodeRequest({ ...header, api: API.DELETE_TOPICS }, { names: ["a"], requestId: null }, []),
    ...raftMessages().map((message) => encodeRequest({ ...header, api: API.RAFT }, ...raftRequest(message))),
  ].map(first);
}

function raftMessages(): RaftMessage[] {
  const entries = [
    { term: 2, kind: "leaderStart" },
    { term: 2, kind: "command" },
  ] as const;
  const configuration = { voters: [VOTER, `2:${TOPIC}`], learners: [] };
  return [
    { kind: "voteRequest", term: 3, isPreVote: true, isTransfer: false, end: 2 ** 33, lastTerm: 2 },
    { kind: "append", term: 3, start: 10, prevTerm: 2, entries, commitEnd: 11 },
    { kind: "heartbeat", term: 3, commitEnd: 11, round: 4 },
    { kind: "snapshotChunk", term: 3, snapshot: { end: 9, lastTerm: 1, sizeBytes: 99, configuration }, position: 0 },
  ];
}

function raftRequest(message: RaftMessage): [RaftRequest, Uint8Array[]] {
  const bodies = message.kind === "append" || message.kind === "snapshotChunk" ? [new Uint8Array(20)] : [];
  const first = message.kind === "append" ? [new Uint8Array(0)] : [];
  return [{ clusterId: TOPIC as Uuid, from: VOTER, to: `2:${TOPIC}`, boots: 1, message }, [...first, ...bodies]];
}

function responses(): Uint8Array[] {
  const answer = { version: 0, correlationId: 7, more: false, error: "NONE", message: null } as const;
  const clusterId = TOPIC as Uuid;
  const broker = { nodeId: 1 as NodeId, address: "ws://127.0.0.1:7070", isFenced: false };
  const topic = { name: "a", error: "NONE", message: null, topicId: TOPIC, partitions: 3 } as const;
  return [
    encodeResponse(
      { ...answer, api: API.METADATA },
      { clusterId, controllerId: 1, brokers: [broker], topics: [], next: null, metadataEnd: 9 },
      [],
    ),
    encodeResponse({ ...answer, api: API.CREATE_TOPICS }, { topics: [topic] }, []),
    encodeResponse(
      { ...answer, api: API.FETCH_METADATA },
      { leaderId: 1, commitEnd: 9, start: 8, entries: [{ term: 1, kind: "command" }], snapshot: null },
      [new Uint8Array(30)],
    ),
    encodeResponse({ ...answer, api: API.HELLO, error: "BUSY", message: "full" }, null, []),
  ].map(first);
}

function metadataHistory(): readonly (readonly MetadataRecord[])[] {
  const nodeId = 1 as NodeId;
  const uuids = { directoryId: TOPIC, incarnationId: TOPIC };
  const shape = { configs: { "segment.bytes": 4096 }, replicationFactor: 1, replicas: [[nodeId], [nodeId]] };
  const restart = { restart: "clean", address: "localhost:7070", metadataVersions: { min: 1, max: 2 } } as const;
  const brokerEpoch = 1 as BrokerEpoch;
  return [
    [{ type: "cluster", version: 1, clusterId: TOPIC, metadataVersion: 2, timestampMs: 1 }],
    [{ type: "register-broker", version: 1, nodeId, ...uuids, ...restart, timestampMs: 1 }],
    [{ type: "unfence-broker", version: 1, nodeId, brokerEpoch }],
    [
      { type: "request", version: 1, requestId: TOPIC, topicId: TOPIC },
      { type: "topic", version: 1, topicId: TOPIC, name: "a", ...shape, timestampMs: 1 },
    ],
    [{ type: "broker-config", version: 1, nodeId: null, configs: { "num.partitions": 3 } }],
    [{ type: "fence-broker", version: 2, nodeId, brokerEpoch, reason: "shutdown" }],
    [{ type: "delete-topic", version: 1, topicId: TOPIC }],
    [{ type: "topic-removed", version: 1, topicId: TOPIC, owed: [nodeId] }],
  ];
}

function metadataCommands(): Uint8Array[] {
  return metadataHistory().map((records) => encodeCommand(records, 2));
}

function metadataSnapshots(): Uint8Array[] {
  const image = new MetadataImage();
  return metadataHistory().map((records, index) => {
    image.apply(index, records);
    return image.encode();
  });
}
