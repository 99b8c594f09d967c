// What clients do while faults strike. Each kind has its topics and its client processes.
import type { TopicConfigKey } from "../model/config.ts";
import type { ClientSpec } from "./clients/fleet.ts";
import type { LoadRole, ReaderRole } from "./clients/order.ts";

export interface WorkloadTopic {
  readonly name: string;
  readonly partitions: number;
  /** Default 3. */
  readonly replicationFactor?: number;
  readonly configs?: Readonly<Partial<Record<TopicConfigKey, string | number>>>;
}

export interface WorkloadKind {
  readonly name: string;
  readonly says: string;
  /** Names are given a prefix per run of the workload. */
  readonly topics: readonly WorkloadTopic[];
  clients(nodes: readonly number[]): readonly ClientSpec[];
  /** What has to be acknowledged in 10 s of a fault that is to be tolerated. */
  readonly progressPer10s: number;
  /** A client that sends is killed and started again during each fault. */
  readonly killsClients: boolean;
}

const LOAD: LoadRole = {
  kind: "load",
  acks: ["all"],
  recordsPerSecond: 120,
  valueBytesMax: 400,
  lingerMs: 5,
  batchBytes: 65_536,
  compression: "none",
  deliveryTimeoutMs: 30_000,
  requestTimeoutMs: 3_000,
  isNamed: false,
};

const READER: ReaderRole = { kind: "reader", sessionMs: [500, 5_000], rereadChance: 0.05 };

const loads = (roles: readonly Partial<LoadRole>[]): ClientSpec[] =>
  roles.map((role, index) => ({ name: `load-${index + 1}`, role: { ...LOAD, ...role } }));
const readers = (count: number): ClientSpec[] =>
  Array.from({ length: count }, (_, index) => ({ name: `reader-${index + 1}`, role: READER }));

export const WORKLOADS: readonly WorkloadKind[] = [
  {
    name: "acks-all",
    says: "idempotent producers with acks=all, one of them with a name; readers that tail and read again",
    topics: [{ name: "records", partitions: 3 }],
    clients: () => [...loads([{}, {}, { isNamed: true }]), ...readers(2)],
    progressPer10s: 100,
    killsClients: true,
  },
  {
    name: "acks-all-pair",
    says: "acks=all on two replicas, of which one in sync is enough",
    topics: [{ name: "records", partitions: 6, replicationFactor: 2, configs: { "min.insync.replicas": 1 } }],
    clients: () => [...loads([{}, {}]), ...readers(1)],
    progressPer10s: 100,
    killsClients: false,
  },
  {
    name: "acks-mix",
    says: "producers that send each record with acks 0, 1 or all",
    topics: [{ name: "mixed", partitions: 3 }],
    clients: () => [...loads([{ acks: [0, 1, "all"] }, { acks: [1, "all"] }]), ...readers(1)],
    progressPer10s: 100,
    killsClients: true,
  },
  {
    name: "big-batches",
    says: "large batches, each producer with another codec",
    topics: [{ name: "big", partitions: 2, configs: { "segment.bytes": 4 * 1024 * 1024 } }],
    clients: () => {
      const big = { valueBytesMax: 20_000, batchBytes: 500_000, lingerMs: 50, recordsPerSecond: 40 };
      const codecs = ["gzip", "snappy", "lz4", "zstd"] as const;
      return [...loads(codecs.map((compression) => ({ ...big, compression }))), ...readers(1)];
    },
    progressPer10s: 100,
    killsClients: false,
  },
  {
    name: "metadata",
    says: "topics and configuration created, changed, deleted and read back by clients that quarrel about the same names",
    topics: [],
    clients: (nodes) =>
      [1, 2, 3].map((number) => ({ name: `admin-${number}`, role: { kind: "metadata", thinkMs: 80, nodes } })),
    // Changes, and reads with a read barrier, by the controller.
    progressPer10s: 20,
    killsClients: false,
  },
];

export function workloadKind(name: string): WorkloadKind | undefined {
  return WORKLOADS.find((kind) => kind.name === name);
}
