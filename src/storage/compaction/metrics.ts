// What compaction counts.
import type { Counter, Histogram, Metrics } from "../../ports/metrics.ts";
import type { PassResult } from "./pass.ts";

export class CompactionMetrics {
  readonly failures: Counter;
  readonly #readBytes: Counter;
  readonly #writtenBytes: Counter;
  readonly #removed: Counter;
  readonly #keyless: Counter;
  readonly #unreadable: Counter;
  readonly #duration: Histogram;

  constructor(metrics: Metrics) {
    this.failures = metrics.counter("compaction_failures_total", "Compactions of a log that did not end.");
    this.#readBytes = metrics.counter("compaction_read_bytes_total", "Bytes of segments that compaction read.");
    this.#writtenBytes = metrics.counter("compaction_written_bytes_total", "Bytes of segments that compaction wrote.");
    this.#removed = metrics.counter("compaction_removed_records_total", "Records that compaction took away.");
    this.#keyless = metrics.counter(
      "compaction_keyless_records_total",
      "Records without a key that compaction took away: nobody can say which of them is the last.",
    );
    this.#unreadable = metrics.counter(
      "compaction_unreadable_batches_total",
      "Batches that compaction left as they are, since their records cannot be read.",
    );
    this.#duration = metrics.histogram("compaction_duration_seconds", "Compactions of a log.");
  }

  observe(result: PassResult, durationMs: number): void {
    this.#readBytes.add(result.readBytes);
    this.#writtenBytes.add(result.writtenBytes);
    this.#removed.add(result.removed);
    this.#keyless.add(result.keyless);
    this.#unreadable.add(result.unreadable);
    this.#duration.observe(durationMs / 1000);
  }
}
