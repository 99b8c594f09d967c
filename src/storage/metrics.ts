// What the storage counts.
import { CompactionMetrics } from "./compaction/metrics.ts";
import type { Counter, Gauge, Histogram, Metrics } from "../ports/metrics.ts";

export class StorageMetrics {
  readonly journalBytes: Counter;
  readonly syncDuration: Histogram;
  readonly pinnedBytes: Gauge;
  readonly cachedBytes: Gauge;
  readonly openFiles: Gauge;
  readonly damagedLogs: Counter;
  readonly compaction: CompactionMetrics;
  readonly scrubbedBytes: Counter;
  readonly scrubPasses: Counter;
  readonly scrubDuration: Gauge;

  constructor(metrics: Metrics) {
    this.journalBytes = metrics.counter("journal_written_bytes_total", "Bytes written to the journal.");
    this.syncDuration = metrics.histogram("journal_sync_duration_seconds", "Syncs of the journal.");
    this.pinnedBytes = metrics.gauge("journal_pinned_bytes", "Batches held in memory until they are in their segment.");
    this.cachedBytes = metrics.gauge("tail_cache_bytes", "Batches kept in memory for readers near the tail.");
    this.openFiles = metrics.gauge("open_segment_files", "Segment files held open.");
    this.compaction = new CompactionMetrics(metrics);
    this.damagedLogs = metrics.counter("damaged_logs_total", "Logs in which damage was met since the start.");
    this.scrubbedBytes = metrics.counter("scrubbed_bytes_total", "Bytes of segments that were read again and checked.");
    this.scrubPasses = metrics.counter("scrub_passes_total", "Times that all segments were read again and checked.");
    this.scrubDuration = metrics.gauge("scrub_pass_duration_seconds", "What the last pass over all segments took.");
  }
}
