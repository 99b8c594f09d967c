// The bytes of the messages between brokers, written down: brokers of two releases meet in a rolling upgrade, so a layout that has
// been released never changes by accident.
import { describe, expect, it } from "vitest";
import { uuidFromBytes } from "../../src/model/ids.ts";
import type { BrokerEpoch, NodeId } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey, ApiTypes } from "../../src/wire/native/apis.ts";
import { encodeRequest, encodeResponse } from "../../src/wire/native/codec.ts";
import type { RaftMessage, WireEntry } from "../../src/wire/native/quorum-apis.ts";

const ID = uuidFromBytes(Uint8Array.from({ length: 16 }, (_, index) => index));
const ID_HEX = "c410000102030405060708090a0b0c0d0e0f";
const nodeId = 2 as NodeId;

const hex = (messages: readonly Uint8Array[]): string =>
  messages.map((message) => Buffer.from(message).toString("hex").replaceAll(ID_HEX, "<id>")).join(" ");
const asked = <K extends ApiKey>(api: K, request: ApiTypes[K]["request"], bodies: Uint8Array[] = [], version = 0) =>
  hex(encodeRequest({ api, version, correlationId: 7, deadlineMs: 500 }, request, bodies));
const answered = <K extends ApiKey>(
  api: K,
  response: ApiTypes[K]["response"],
  bodies: Uint8Array[] = [],
  version = 0,
) =>
  hex(encodeResponse({ api, version, correlationId: 7, more: false, error: "NONE", message: null }, response, bodies));

const entries: WireEntry[] = [
  { term: 2, kind: "leaderStart" },
  { term: 2, kind: "command" },
  { term: 3, kind: "configuration" },
];
const bodies = [new Uint8Array(0), Uint8Array.of(1, 2), Uint8Array.of(3)];
const configuration = { voters: ["1:a", "2:b"], learners: ["3:c"] };
const snapshot = { end: 2 ** 33, lastTerm: 1, sizeBytes: 300, configuration };
const raft = (message: RaftMessage, attached: Uint8Array[] = []) =>
  asked(API.RAFT, { clusterId: ID, from: "1:a", to: "2:b", boots: 4, message }, attached);

const REQUESTS: readonly [string, string, string][] = [
  [
    "voteRequest",
    raft({ kind: "voteRequest", term: 3, isPreVote: true, isTransfer: false, end: 9, lastTerm: 2 }),
    "96200007cd01f49095<id>a3313a61a3323a620492019503c3c20902",
  ],
  [
    "voteResponse",
    raft({ kind: "voteResponse", term: 3, isPreVote: false, isGranted: true }),
    "96200007cd01f49095<id>a3313a61a3323a620492029303c2c3",
  ],
  [
    "append",
    raft({ kind: "append", term: 3, start: 7, prevTerm: 2, entries, commitEnd: 8 }, bodies),
    "96200007cd01f493c400c4020102c4010395<id>a3313a61a3323a62049203950307029392020192020092030208",
  ],
  [
    "appendMatched",
    raft({ kind: "appendMatched", term: 3, end: 10 }),
    "96200007cd01f49095<id>a3313a61a3323a6204920492030a",
  ],
  [
    "appendRefused",
    raft({ kind: "appendRefused", term: 3, start: 7, hintEnd: 5, hintTerm: 1 }),
    "96200007cd01f49095<id>a3313a61a3323a620492059403070501",
  ],
  [
    "heartbeat",
    raft({ kind: "heartbeat", term: 3, commitEnd: 8, round: 12 }),
    "96200007cd01f49095<id>a3313a61a3323a620492069303080c",
  ],
  [
    "heartbeatResponse",
    raft({ kind: "heartbeatResponse", term: 3, round: 12 }),
    "96200007cd01f49095<id>a3313a61a3323a6204920792030c",
  ],
  [
    "snapshotChunk",
    raft({ kind: "snapshotChunk", term: 3, snapshot, position: 256 }, [Uint8Array.of(9)]),
    "96200007cd01f491c4010995<id>a3313a61a3323a62049208930394d3000000020000000001cd012c9292a3313a61a3323a6291a3333a63cd0100",
  ],
  [
    "snapshotResponse",
    raft({ kind: "snapshotResponse", term: 3, snapshotEnd: 7, position: 300 }),
    "96200007cd01f49095<id>a3313a61a3323a62049209930307cd012c",
  ],
  ["timeoutNow", raft({ kind: "timeoutNow", term: 3 }), "96200007cd01f49095<id>a3313a61a3323a6204920a9103"],
  [
    "VoterHello",
    asked(API.VOTER_HELLO, { nodeId, directoryId: ID, voters: "1@a:1", address: "b:2", boots: 7, isRefused: false }),
    "96210007cd01f4909602<id>a53140613a31a3623a3207c2",
  ],
  ["Adopt", asked(API.ADOPT, { clusterId: ID, voters: ["1:a", "2:b"] }), "96220007cd01f49092<id>92a3313a61a3323a62"],
  [
    "RegisterBroker",
    asked(API.REGISTER_BROKER, {
      clusterId: ID,
      nodeId,
      directoryId: ID,
      incarnationId: ID,
      restart: "power-loss",
      address: "h:1",
      versionsMin: 1,
      versionsMax: 2,
      lastBrokerEpoch: -1,
    }),
    "96230007cd01f49099<id>02<id><id>03a3683a310102ff",
  ],
  [
    "BrokerHeartbeat",
    asked(API.BROKER_HEARTBEAT, {
      nodeId,
      brokerEpoch: 40,
      incarnationId: ID,
      appliedEnd: 41,
      epochStored: true,
      wantsShutdown: false,
      isLowOnSpace: false,
      droppedTopics: [ID],
      damaged: [{ topicId: ID, partitions: [0, 2] }],
    }),
    "96240007cd01f490990228<id>29c3c2c291<id>9192<id>920002",
  ],
  [
    "FetchMetadata",
    asked(API.FETCH_METADATA, {
      clusterId: ID,
      nodeId,
      start: 5,
      startTerm: 3,
      maxWaitMs: 500,
      maxBytes: 1000,
      snapshotEnd: -1,
      snapshotPosition: 0,
    }),
    "96250007cd01f49098<id>020503cd01f4cd03e8ff00",
  ],
  ["DescribeQuorum", asked(API.DESCRIBE_QUORUM, {}), "96260007cd01f49090"],
  ["ChangeQuorum", asked(API.CHANGE_QUORUM, { op: "replace", nodeId, directoryId: null }), "96270007cd01f490930202c0"],
  ["UnregisterBroker", asked(API.UNREGISTER_BROKER, { nodeId, isForced: true }), "96290007cd01f4909202c3"],
  ["RaiseMetadataVersion", asked(API.RAISE_METADATA_VERSION, { version: 2 }), "96280007cd01f4909102"],
  [
    "AlterConfigs",
    asked(API.ALTER_CONFIGS, {
      resource: "broker",
      name: "2",
      changes: [
        { key: "a", value: "1" },
        { key: "b", value: null },
      ],
      validateOnly: false,
      requestId: ID,
    }),
    "96080007cd01f4909501a1329292a161a13192a162c0c2<id>",
  ],
  [
    "DescribeConfigs",
    asked(API.DESCRIBE_CONFIGS, { resource: "topic", name: "t", keys: null, barrier: true }),
    "96090007cd01f4909400a174c0c3",
  ],
  [
    "Metadata 1",
    asked(API.METADATA, { topics: ["t"], after: null, barrier: true }, [], 1),
    "96020107cd01f4909391a174c0c3",
  ],
  ["DeleteTopics 1", asked(API.DELETE_TOPICS, { names: ["t"], requestId: ID }, [], 1), "96070107cd01f4909291a174<id>"],
  [
    "CreateTopics 1",
    asked(API.CREATE_TOPICS, { validateOnly: true, topics: [], requestId: ID }, [], 1),
    "96060107cd01f49093c390<id>",
  ],
  [
    "AlterPartition",
    asked(API.ALTER_PARTITION, {
      nodeId,
      brokerEpoch: 40,
      entries: [
        {
          topicId: ID,
          partition: 1,
          leaderEpoch: 3,
          partitionEpoch: 9,
          isr: [{ nodeId: 2, brokerEpoch: 40 }],
          wantsMove: true,
        },
      ],
    }),
    "962a0007cd01f4909302289196<id>01030991920228c3",
  ],
  [
    "ReplicaFetch",
    asked(API.REPLICA_FETCH, {
      nodeId,
      brokerEpoch: 40,
      sessionId: 2 ** 40,
      maxWaitMs: 500,
      maxBytes: 1000,
      added: [{ slot: 4, topicId: ID, partition: 1 }],
      positions: [4, 3, 2 ** 33, -1, 5, 3, 7, 2],
      removed: [6],
    }),
    "962b0007cd01f490980228d30000010000000000cd01f4cd03e8919304<id>01980403d30000000200000000ff050307029106",
  ],
  [
    "DurableReport",
    asked(API.DURABLE_REPORT, { nodeId, brokerEpoch: 40, sessionId: 8, rows: [4, 3, 100, 7] }),
    "962c0007cd01f4909402280893040364",
  ],
  [
    "DurableReport 1",
    asked(API.DURABLE_REPORT, { nodeId, brokerEpoch: 40, sessionId: 8, rows: [4, 3, 100, 7] }, [], 1),
    "962c0107cd01f490940228089404036407",
  ],
  [
    "DeleteRecords",
    asked(API.DELETE_RECORDS, { timeoutMs: 500, entries: [{ topicId: ID, partition: 1, offset: -1 }] }),
    "960a0007cd01f49092cd01f49193<id>01ff",
  ],
  [
    "ElectLeaders",
    asked(API.ELECT_LEADERS, { kind: "unclean", topic: "t", partitions: [0, 2], nodeId: -1, isForced: true }),
    "962d0007cd01f4909501a174920002ffc3",
  ],
  [
    "DescribePartitions",
    asked(API.DESCRIBE_PARTITIONS, { entries: [{ topicId: ID, partition: 1 }] }),
    "962e0007cd01f490919192<id>01",
  ],
  [
    "InitProducerId",
    asked(API.INIT_PRODUCER_ID, { name: "n", producerId: 2 ** 40, producerEpoch: 3 }),
    "962f0007cd01f49093a16ed3000001000000000003",
  ],
  ["AllocateProducerIds", asked(API.ALLOCATE_PRODUCER_IDS, { nodeId, brokerEpoch: 40 }), "96300007cd01f490920228"],
];

const ANSWERS: readonly [string, string, string][] = [
  [
    "VoterHello",
    answered(API.VOTER_HELLO, {
      state: "formed",
      nodeId,
      directoryId: ID,
      voters: "1@a:1",
      clusterId: ID,
      founding: true,
      configuration,
      boots: 3,
      term: 4,
      end: 6,
      commitEnd: 5,
    }),
    "982100070000c0909b0102<id>a53140613a31<id>c39292a3313a61a3323a6291a3333a6303040605",
  ],
  ["Adopt", answered(API.ADOPT, {}), "982200070000c09090"],
  [
    "DeleteRecords",
    answered(API.DELETE_RECORDS, { entries: [{ error: "POLICY_VIOLATION", message: "m", lowWatermark: -1 }] }),
    "980a00070000c09091919375a16dff",
  ],
  [
    "RegisterBroker",
    answered(API.REGISTER_BROKER, { brokerEpoch: (2 ** 32) as BrokerEpoch }),
    "982300070000c09091d30000000100000000",
  ],
  ["BrokerHeartbeat", answered(API.BROKER_HEARTBEAT, { isFenced: false, mayShutDown: true }), "982400070000c09092c2c3"],
  [
    "FetchMetadata, entries",
    answered(API.FETCH_METADATA, { leaderId: 1, commitEnd: 8, start: 5, entries, snapshot: null }, bodies),
    "982500070000c093c400c4020102c401039501080593920201920200920302c0",
  ],
  [
    "FetchMetadata, snapshot",
    answered(
      API.FETCH_METADATA,
      { leaderId: -1, commitEnd: 8, start: 0, entries: [], snapshot: { ...snapshot, position: 100 } },
      [Uint8Array.of(9)],
    ),
    "982500070000c091c4010995ff08009095d3000000020000000001cd012c9292a3313a61a3323a6291a3333a6364",
  ],
  [
    "DescribeQuorum",
    answered(API.DESCRIBE_QUORUM, {
      clusterId: null,
      nodeId,
      role: "controller",
      leaderId: 2,
      term: 3,
      commitEnd: 9,
      appliedEnd: 8,
      metadataVersion: 1,
      versionsMin: 1,
      versionsMax: 2,
      voters: [{ replicaId: "2:b", isLearner: false, end: -1, lagMs: 20, isRefused: true }],
      reachable: [1, 3],
      waitingFor: "x",
    }),
    "982600070000c0909dc00206020309080101029195a3323a62c2ff14c3920103a178",
  ],
  ["AlterConfigs", answered(API.ALTER_CONFIGS, { metadataEnd: 9 }), "980800070000c0909109"],
  [
    "DescribeConfigs",
    answered(API.DESCRIBE_CONFIGS, {
      configs: [{ key: "a", value: "1", source: "default", isReadOnly: true }],
      metadataEnd: 9,
    }),
    "980900070000c090929194a161a13104c309",
  ],
  [
    "Metadata 1",
    answered(
      API.METADATA,
      {
        clusterId: ID,
        controllerId: 1,
        brokers: [{ nodeId: 1, address: "h:1", isFenced: true }],
        topics: [],
        next: null,
        metadataEnd: 9,
      },
      [],
      1,
    ),
    "980201070000c09096<id>01919301a3683a31c390c009",
  ],
  [
    "Metadata 2",
    answered(
      API.METADATA,
      {
        clusterId: ID,
        controllerId: 1,
        brokers: [],
        topics: [
          {
            name: "t",
            error: "NONE",
            topicId: ID,
            isDeleting: false,
            maxMessageBytes: 100,
            configs: [],
            partitions: [
              {
                index: 0,
                error: "NO_INTACT_REPLICA",
                leader: -1,
                leaderEpoch: 3,
                replicas: [1, 2, 3],
                isr: [],
                elr: [2],
                partitionEpoch: 9,
                minIsr: 2,
                uncleanEpoch: -1,
              },
            ],
          },
        ],
        next: null,
        metadataEnd: 9,
      },
      [],
      2,
    ),
    "980202070000c09096<id>01909197a17400<id>c26490919a0065ff03930102039091020902ffc009",
  ],
  [
    "AlterPartition",
    answered(API.ALTER_PARTITION, { entries: [{ error: "INELIGIBLE_REPLICA" }] }),
    "982a00070000c0909191916b",
  ],
  [
    "ReplicaFetch",
    answered(API.REPLICA_FETCH, { rows: [4, 0, 3, 2 ** 33, 0, -1, -1, 0, 5, 23, 3, -1, -1, -1, -1, -1] }, [
      Uint8Array.of(9),
    ]),
    "982b00070000c091c4010991dc0010040003d3000000020000000000ffff00051703ffffffffff",
  ],
  [
    "ElectLeaders",
    answered(API.ELECT_LEADERS, {
      entries: [{ topic: "t", partition: 0, error: "ELECTION_NOT_NEEDED", message: null, leader: 2, endOffset: -1 }],
      omitted: 1,
      metadataEnd: 9,
    }),
    "982d00070000c090939196a1740068c002ff0109",
  ],
  [
    "DescribePartitions",
    answered(API.DESCRIBE_PARTITIONS, {
      entries: [
        {
          error: "NONE",
          leaderEpoch: 3,
          partitionEpoch: 9,
          logStartOffset: 0,
          highWatermark: 5,
          endOffset: 7,
          durableEnd: 6,
          replicas: [{ nodeId: 2, endOffset: 7, durableEnd: 5, caughtUpMsAgo: 300, isInSync: true }],
        },
      ],
    }),
    "982e00070000c090919198000309000507069195020705cd012cc3",
  ],
  ["InitProducerId", answered(API.INIT_PRODUCER_ID, { producerId: 7, producerEpoch: 0 }), "982f00070000c090920700"],
  [
    "AllocateProducerIds",
    answered(API.ALLOCATE_PRODUCER_IDS, { firstId: 3000, count: 1000 }),
    "983000070000c09092cd0bb8cd03e8",
  ],
];

describe.each([
  ["request", REQUESTS],
  ["answer", ANSWERS],
] as const)("bytes of each %s", (_half, rows) => {
  it.each(rows)("%s", (_name, bytes, golden) => expect(bytes).toBe(golden));
});
