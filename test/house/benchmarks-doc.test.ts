// The tables of figures in docs/benchmarks.md against the results in bench/results/ that they are made from.
import { describe, expect, it } from "vitest";
import { tableOf } from "../../scripts/benchmark-table.ts";
import { withTable } from "../../scripts/docs-tables.ts";
import type { BenchResult } from "../../src/bench/result.ts";
import { read } from "./tree.ts";

const doc = read("docs/benchmarks.md");

describe("docs/benchmarks.md", () => {
  it("has the figures of bench/results/", () => {
    expect(withTable(doc, "benchmarks")).toBe(doc);
  });

  it("shows each run with its figures, and what it was taken with", () => {
    const run = {
      name: "produce acks=all",
      recordsPerSecond: 123_456.7,
      mbPerSecond: 12.34,
      latencyMs: { p50: 1.234, p99: 56.78, p999: 901.2 },
      errors: { CLOSED: 3, NOT_SENT: 4 },
      cpuSecondsPerGB: { client: 1.5, brokers: null },
      diskBytesPerByte: 6,
      ratio: { toRawDisk: 0.0123, toRawSocket: null },
    };
    const result = {
      command: "node dist/cli/main.js bench produce --acks all",
      machine: { cores: 2, cpu: "a processor", node: "v20.1.0" },
      commit: "abc1234",
      startedAt: "2026-01-02T03:04:05.000Z",
      cluster: { brokers: 3 },
      limits: { rawDiskMBs: 1000, rawSocketMBs: null },
      isComplete: true,
      runs: [run],
    } as unknown as BenchResult;
    expect(tableOf(result).split("\n")).toEqual([
      "`ottla bench produce --acks all`: 3 brokers; 2 cores of a processor; Node v20.1.0; commit abc1234; 2026-01-02; raw disk 1000 MB/s, raw socket - MB/s.",
      "",
      "| run | records/s | MB/s | p50 ms | p99 ms | p99.9 ms | failed | client CPU s/GB | broker CPU s/GB | written | x raw disk | x raw socket |",
      "|---|---|---|---|---|---|---|---|---|---|---|---|",
      "| produce acks=all | 123,457 | 12.3 | 1.23 | 56.8 | 901 | 7 | 1.50 | - | 6.00 | 0.012 | - |",
    ]);
  });
});
