// Counts what becomes of produced records, shows progress, and sums up at the end.
import { createHistogram } from "node:perf_hooks";
import type { BatchReport } from "../client/types.ts";
import { type ErrorName, OttlaError } from "../model/errors.ts";
import { EXIT } from "../model/exit-codes.ts";
import { type Output, remarkText } from "./output.ts";
import { counted, humanBytes } from "./values.ts";

const CLEAR_LINE = "\r\u001b[2K";
const GONE: readonly ErrorName[] = ["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"];
const TOLD_MAX = 10;
const KEYLESS_HINT = "give each record a key: with -K : it is what is before the first colon of a line";
const PROGRESS_TERMINAL_MS = 500;
const PROGRESS_FILE_MS = 10_000;

export class ProduceTally {
  readonly #output: Output;
  readonly #skipsOversized: boolean;
  /** False with acks 0: sent is all that is known. */
  readonly #isAnswered: boolean;
  readonly #partitions = new Set<number>();
  readonly #causes = new Map<string, number>();
  readonly #hinted = new Set<string>();
  #isDropped = false;
  readonly #latencyUs = createHistogram();
  readonly #startedMs = performance.now();
  readonly #errors = new Map<string, number>();
  readonly #isTerminal = process.stderr.isTTY === true;
  #progress: NodeJS.Timeout | undefined;
  #readRecords = 0;
  #readBytes = 0;
  /** Of lines that were not sent. */
  #unsentBytes = 0;
  /** Acknowledged, or sent where nothing is answered. */
  #doneRecords = 0;
  #failedRecords = 0;
  #unknownRecords = 0;
  #unknownBatches = 0;
  #oversizedLines = 0;
  #keylessLines = 0;
  #isHopeless = false;
  #isTopicGone = false;

  constructor(
    output: Output,
    { skipsOversized, isAnswered }: { readonly skipsOversized: boolean; readonly isAnswered: boolean },
  ) {
    this.#output = output;
    this.#skipsOversized = skipsOversized;
    this.#isAnswered = isAnswered;
  }

  /** Partitions to which something was sent. */
  get partitions(): readonly number[] {
    return [...this.#partitions].toSorted((left, right) => left - right);
  }

  /** What was sent there and never answered was not taken, or may not have been. */
  doubt(where: readonly string[], why: string, isDropped: boolean): void {
    this.#isDropped ||= isDropped;
    this.#say(`${where.join(", ")}: ${why}`);
  }

  /** True: an error after which every further record would fail too. */
  get isHopeless(): boolean {
    return this.#isHopeless;
  }

  /** True: a batch was refused because its topic has been deleted. */
  get isTopicGone(): boolean {
    return this.#isTopicGone;
  }

  get exitCode(): number {
    const sentRecords = this.#readRecords - this.#oversizedLines;
    const hasFailed = this.#failedRecords > 0 || this.#unknownRecords > 0 || sentRecords > this.#doneRecords;
    if (this.#isDropped) return EXIT.FAILED;
    return hasFailed || (this.#oversizedLines > 0 && !this.#skipsOversized) ? EXIT.FAILED : EXIT.OK;
  }

  read(sizeBytes: number): void {
    this.#readRecords++;
    this.#readBytes += sizeBytes;
  }

  /** Read like every line, but not sent. */
  oversized(lineNumber: number, sizeBytes: number): void {
    this.read(sizeBytes);
    this.#oversizedLines++;
    this.#unsentBytes += sizeBytes;
    if (this.#oversizedLines <= TOLD_MAX)
      this.#say(`line ${lineNumber} is longer than the topic's max.message.bytes: not sent`);
    if (this.#oversizedLines === TOLD_MAX + 1) this.#say("further long lines are only counted");
  }

  /** Read like every line, but not sent: a compacted topic takes none. */
  keyless(lineNumber: number, sizeBytes: number): void {
    this.read(sizeBytes);
    this.#keylessLines++;
    this.#unsentBytes += sizeBytes;
    const why = "has no key, and cleanup.policy of the topic has compact: not sent";
    if (this.#keylessLines <= TOLD_MAX) this.#say(`line ${lineNumber} ${why}`, KEYLESS_HINT);
    if (this.#keylessLines === TOLD_MAX + 1) this.#say("further lines without a key are only counted");
  }

  onBatch(report: BatchReport): void {
    this.#latencyUs.record(Math.max(1, Math.round(report.latencyMs * 1000)));
    if (report.error === undefined) this.#partitions.add(report.partition);
    if (report.error === undefined || report.error.outcome === "appended") this.#doneRecords += report.recordCount;
    if (report.error !== undefined) this.#failed(report, report.error);
  }

  #failed(report: BatchReport, error: NonNullable<BatchReport["error"]>): void {
    this.#errors.set(error.code, (this.#errors.get(error.code) ?? 0) + report.recordCount);
    const where = `${report.topic}-${report.partition}`;
    const cause = error.cause instanceof OttlaError ? error.cause.code : undefined;
    if (cause !== undefined) this.#causes.set(cause, (this.#causes.get(cause) ?? 0) + report.recordCount);
    const code = cause === undefined ? error.code : `${error.code}, ${cause}`;
    const why = `error[${code}]: ${error.message.replace(`${where}: `, "")}`;
    if (error.outcome === "unknown") {
      this.#unknownRecords += report.recordCount;
      this.#unknownBatches++;
      if (this.#unknownBatches <= TOLD_MAX) {
        this.#say(
          `${counted(report.recordCount, "record")} of unknown outcome (batch of ${where}, ${report.sizeBytes} bytes): ${why}`,
          error.hint,
        );
      }
      return;
    }
    if (error.outcome === "appended") return;
    if (this.#failedRecords === 0)
      this.#say(`${counted(report.recordCount, "record")} not appended (${where}): ${why}`, error.hint);
    this.#failedRecords += report.recordCount;
    if (GONE.includes(error.code)) this.#isHopeless = this.#isTopicGone = true;
    if (!error.retriable && error.code !== "MESSAGE_TOO_LARGE") this.#isHopeless = true;
  }

  startProgress(): void {
    if (this.#output.isQuiet) return;
    const everyMs = this.#isTerminal ? PROGRESS_TERMINAL_MS : PROGRESS_FILE_MS;
    this.#progress = setInterval(() => this.#showProgress(), everyMs).unref();
  }

  #showProgress(): void {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    const rate = Math.round(this.#doneRecords / seconds);
    const text = `${this.#doneText()} of ${this.#readRecords} read, ${humanBytes(this.#readBytes)}, ${rate} records/s`;
    if (!this.#isTerminal || this.#output.isJson) this.#output.note(text);
    else process.stderr.write(`${CLEAR_LINE}${text}`);
  }

  /** On a terminal the progress is one line, written over and over: whatever else is said takes its place. */
  #clearProgress(): void {
    if (this.#isTerminal && !this.#output.isJson && this.#progress !== undefined) process.stderr.write(CLEAR_LINE);
  }

  /** Each hint once. */
  #say(text: string, hint?: string): void {
    this.#clearProgress();
    process.stderr.write(remarkText(`warning: ${text}`, this.#output.isJson));
    if (hint === undefined || this.#hinted.has(hint)) return;
    if (this.#hinted.size < TOLD_MAX) process.stderr.write(remarkText(`  hint: ${hint}`, this.#output.isJson));
    this.#hinted.add(hint);
  }

  #doneText(): string {
    const records = counted(this.#doneRecords, "record");
    return this.#isAnswered ? `${records} acknowledged` : `${records} sent, not acknowledged (acks 0),`;
  }

  /** The summary, on stderr: stdout stays free. */
  finish(topic: string): void {
    this.#clearProgress();
    clearInterval(this.#progress);
    const seconds = Math.max((performance.now() - this.#startedMs) / 1000, 0.001);
    const summary = {
      topic,
      recordsRead: this.#readRecords,
      recordsAcknowledged: this.#isAnswered ? this.#doneRecords : 0,
      ...(this.#isAnswered ? {} : { recordsSent: this.#doneRecords }),
      recordsNotAppended: this.#failedRecords,
      recordsUnknown: this.#unknownRecords,
      linesTooLong: this.#oversizedLines,
      linesWithoutKey: this.#keylessLines,
      bytesRead: this.#readBytes,
      seconds: Number(seconds.toFixed(3)),
      recordsPerSecond: Math.round(this.#doneRecords / seconds),
      bytesPerSecond: Math.round((this.#readBytes - this.#unsentBytes) / seconds),
      batchLatencyP50Ms: this.#percentileMs(50),
      batchLatencyP99Ms: this.#percentileMs(99),
      errors: Object.fromEntries(this.#errors),
      causes: Object.fromEntries(this.#causes),
    };
    if (this.#output.isJson) this.#output.json("produce", summary);
    else this.#sumUp(summary);
  }

  /** Of answers: null where none are given. */
  #percentileMs(percentile: number): number | null {
    if (!this.#isAnswered) return null;
    return this.#latencyUs.count === 0 ? 0 : Number((this.#latencyUs.percentile(percentile) / 1000).toFixed(2));
  }

  #sumUp(summary: {
    readonly recordsPerSecond: number;
    readonly bytesPerSecond: number;
    readonly seconds: number;
    readonly batchLatencyP50Ms: number | null;
    readonly batchLatencyP99Ms: number | null;
  }): void {
    const rate = `${summary.recordsPerSecond} records/s, ${humanBytes(summary.bytesPerSecond)}/s`;
    const latency = `; batch latency p50 ${summary.batchLatencyP50Ms} ms, p99 ${summary.batchLatencyP99Ms} ms`;
    this.#output.note(
      `${this.#doneText()} of ${this.#readRecords} read, ${humanBytes(this.#readBytes)} in ${summary.seconds} s (${rate})${this.#isAnswered ? latency : ""}`,
    );
    if (this.#unknownRecords > 0) {
      this.#output.note(
        `${counted(this.#unknownRecords, "record")} of unknown outcome in ${counted(this.#unknownBatches, "batch", "batches")}: they may be in the topic or not`,
      );
    }
    const lines = this.#oversizedLines;
    if (lines > 0) this.#output.note(`${counted(lines, "line")} ${lines === 1 ? "was" : "were"} too long and not sent`);
    const keyless = this.#keylessLines;
    if (keyless > 0)
      this.#output.note(`${counted(keyless, "line")} had no key and ${keyless === 1 ? "was" : "were"} not sent`);
    for (const [code, count] of this.#errors) this.#output.note(`${code}: ${counted(count, "record")}`);
  }
}
