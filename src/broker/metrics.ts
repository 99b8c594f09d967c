// The broker's own metrics, looked up once.
import { API, type ApiKey } from "../wire/native/apis.ts";
import type { Counter, Gauge, Histogram, Metrics } from "../ports/metrics.ts";
import type { ClusterMember } from "./cluster-member.ts";
import type { QuorumRole } from "./quorum/types.ts";

const QUORUM_ROLES: readonly QuorumRole[] = ["forming", "observer", "learner", "follower", "candidate", "leader"];

export const API_NAMES: Readonly<Record<ApiKey, string>> = {
  [API.HELLO]: "hello",
  [API.METADATA]: "metadata",
  [API.PRODUCE]: "produce",
  [API.FETCH]: "fetch",
  [API.LIST_OFFSETS]: "list_offsets",
  [API.CREATE_TOPICS]: "create_topics",
  [API.DELETE_TOPICS]: "delete_topics",
  [API.ALTER_CONFIGS]: "alter_configs",
  [API.DESCRIBE_CONFIGS]: "describe_configs",
  [API.DELETE_RECORDS]: "delete_records",
  [API.RAFT]: "raft",
  [API.VOTER_HELLO]: "voter_hello",
  [API.ADOPT]: "adopt",
  [API.REGISTER_BROKER]: "register_broker",
  [API.BROKER_HEARTBEAT]: "broker_heartbeat",
  [API.FETCH_METADATA]: "fetch_metadata",
  [API.DESCRIBE_QUORUM]: "describe_quorum",
  [API.CHANGE_QUORUM]: "change_quorum",
  [API.RAISE_METADATA_VERSION]: "raise_metadata_version",
  [API.UNREGISTER_BROKER]: "unregister_broker",
  [API.ALTER_PARTITION]: "alter_partition",
  [API.REPLICA_FETCH]: "replica_fetch",
  [API.DURABLE_REPORT]: "durable_report",
  [API.ELECT_LEADERS]: "elect_leaders",
  [API.DESCRIBE_PARTITIONS]: "describe_partitions",
  [API.INIT_PRODUCER_ID]: "init_producer_id",
  [API.ALLOCATE_PRODUCER_IDS]: "allocate_producer_ids",
};

interface ApiMetrics {
  readonly requests: Counter;
  readonly failures: Counter;
  readonly duration: Histogram;
}

function retentionSegments(metrics: Metrics, reason: string): Counter {
  return metrics.counter("retention_segments_total", "Segments that retention let go, of partitions led here.", {
    reason,
  });
}

export class BrokerMetrics {
  readonly connections: Gauge;
  readonly partitions: Gauge;
  readonly leaderPartitions: Gauge;
  readonly offlinePartitions: Gauge;
  readonly underReplicated: Gauge;
  readonly belowMinIsr: Gauge;
  readonly replicationLagMax: Gauge;
  readonly replicationBytes: { readonly bytesOut: Counter; readonly bytesIn: Counter };
  readonly isrShrinks: Counter;
  readonly isrExpands: Counter;
  readonly controllerActive: Gauge;
  readonly brokersFenced: Gauge;
  readonly registrations: Gauge;
  readonly quorumTerm: Gauge;
  readonly quorumCommitEnd: Gauge;
  readonly quorumLag: Gauge;
  readonly metadataVersion: Gauge;
  readonly diskFree: Gauge;
  readonly delayed: Gauge;
  readonly inFlight: Gauge;
  readonly requestBytes: Gauge;
  readonly unsentBytes: Gauge;
  readonly bytesIn: Counter;
  readonly bytesOut: Counter;
  readonly recordsIn: Counter;
  readonly corruptBatches: Counter;
  readonly duplicateBatches: Counter;
  readonly outOfOrderBatches: Counter;
  readonly producers: Gauge;
  readonly retentionSegments: { readonly bySize: Counter; readonly byTime: Counter };
  readonly #apis = new Map<ApiKey, ApiMetrics>();
  readonly #roles = new Map<QuorumRole, Gauge>();

  constructor(metrics: Metrics) {
    this.connections = metrics.gauge("connections", "Open connections.");
    this.partitions = metrics.gauge("partitions", "Partitions hosted here.");
    this.leaderPartitions = metrics.gauge("leader_partitions", "Partitions led here.");
    this.offlinePartitions = metrics.gauge("offline_partitions", "Partitions without a leader.");
    this.underReplicated = metrics.gauge(
      "under_replicated_partitions",
      "Partitions led here of which fewer replicas are in sync than there are.",
    );
    this.belowMinIsr = metrics.gauge(
      "under_min_isr_partitions",
      "Partitions led here of which fewer replicas are in sync than min.insync.replicas: they take nothing.",
    );
    this.replicationLagMax = metrics.gauge(
      "replication_lag_max",
      "Most records that a follower of a partition led here has not fetched yet.",
    );
    this.replicationBytes = {
      bytesOut: metrics.counter("replication_bytes_out_total", "Bytes of record batches sent to followers."),
      bytesIn: metrics.counter("replication_bytes_in_total", "Bytes of record batches fetched from leaders."),
    };
    this.isrShrinks = metrics.counter("isr_shrinks_total", "Replicas that left the ISR of a partition led here.");
    this.isrExpands = metrics.counter("isr_expands_total", "Replicas that came into the ISR of a partition led here.");
    this.controllerActive = metrics.gauge("controller_active", "1 on the active controller.");
    this.brokersFenced = metrics.gauge("brokers_fenced", "Registered brokers that lead nothing.");
    this.registrations = metrics.gauge("broker_registrations", "Registrations of this process at a controller.");
    this.quorumTerm = metrics.gauge("quorum_term", "Term of the metadata quorum as known here.");
    this.quorumCommitEnd = metrics.gauge(
      "quorum_commit_end",
      "End of the metadata log that is committed, as known here.",
    );
    this.quorumLag = metrics.gauge("quorum_apply_lag", "Committed entries of the metadata log not applied here yet.");
    this.metadataVersion = metrics.gauge("metadata_version", "The metadata.version of the cluster; 0: none yet.");
    for (const role of QUORUM_ROLES)
      this.#roles.set(role, metrics.gauge("quorum_role", "1 for what this node is in the metadata quorum.", { role }));
    this.diskFree = metrics.gauge("disk_free_bytes", "Free space on the disk of the data directory.");
    this.delayed = metrics.gauge("delayed_operations", "Requests waiting for an event.");
    this.inFlight = metrics.gauge("requests_inflight", "Requests received and not yet answered.");
    this.requestBytes = metrics.gauge("request_inflight_bytes", "Bytes of requests received and not yet answered.");
    this.unsentBytes = metrics.gauge("unsent_bytes", "Bytes of answers being read or not yet taken by the peers.");
    this.bytesIn = metrics.counter("topic_bytes_in_total", "Bytes of record batches appended.");
    this.bytesOut = metrics.counter("topic_bytes_out_total", "Bytes of record batches answered to fetches.");
    this.recordsIn = metrics.counter("topic_records_in_total", "Records appended.");
    this.corruptBatches = metrics.counter(
      "corrupt_batches_total",
      "Produced batches refused for a wrong checksum or length.",
    );
    this.duplicateBatches = metrics.counter(
      "duplicate_batches_total",
      "Produced batches that were in the log already: answered with their offset, not appended again.",
    );
    this.outOfOrderBatches = metrics.counter(
      "out_of_order_batches_total",
      "Produced batches refused because they do not follow on the last one of their producer, or are not what is there under their numbers.",
    );
    this.producers = metrics.gauge(
      "idempotent_producers",
      "Idempotent producers that the partitions led here remember, each counted once for each partition.",
    );
    this.retentionSegments = { bySize: retentionSegments(metrics, "size"), byTime: retentionSegments(metrics, "time") };
    for (const key of Object.values(API)) {
      const labels = { api: API_NAMES[key] };
      this.#apis.set(key, {
        requests: metrics.counter("requests_total", "Requests answered.", labels),
        failures: metrics.counter("request_errors_total", "Requests that failed as a whole.", labels),
        duration: metrics.histogram("request_duration_seconds", "From receipt of a request to its answer.", labels),
      });
    }
  }

  observeCluster({ quorum, controller, membership, nodeId }: ClusterMember, leaderCount: number): void {
    const { image, status } = quorum;
    let ledCount = 0;
    let fencedCount = 0;
    for (const broker of image.brokers) {
      ledCount += image.ledCount(broker.nodeId);
      if (broker.isFenced) fencedCount++;
    }
    this.partitions.set(image.heldCount(nodeId));
    this.leaderPartitions.set(leaderCount);
    this.offlinePartitions.set(Math.max(0, image.livePartitionCount - ledCount));
    this.controllerActive.set(controller.isActive ? 1 : 0);
    this.brokersFenced.set(fencedCount);
    this.registrations.set(membership.registrations);
    this.quorumTerm.set(status.term);
    this.quorumCommitEnd.set(status.commitEnd);
    this.quorumLag.set(Math.max(0, status.commitEnd - status.appliedEnd));
    this.metadataVersion.set(image.metadataVersion);
    for (const [role, gauge] of this.#roles) gauge.set(role === status.role ? 1 : 0);
  }

  isrChanged(by: number): void {
    if (by < 0) this.isrShrinks.add(-by);
    else this.isrExpands.add(by);
  }

  answered(api: ApiKey, durationMs: number, isFailed: boolean): void {
    const metrics = this.#apis.get(api);
    metrics?.requests.add(1);
    metrics?.duration.observe(durationMs / 1000);
    if (isFailed) metrics?.failures.add(1);
  }
}
