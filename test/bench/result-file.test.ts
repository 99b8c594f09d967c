// A result file is read strictly: what it does not know, lacks or cannot be is refused by name.
import { describe, expect, it } from "vitest";
import { OttlaError } from "../../src/model/errors.ts";
import { parseResult, resultText } from "../../src/bench/result-file.ts";
import type { BenchResult, BenchRun } from "../../src/bench/result.ts";

const RUN: BenchRun = {
  name: "produce acks=all",
  labels: {
    verb: "produce",
    mode: "open",
    acks: "all",
    recordBytes: 100,
    batchBytes: 65_536,
    partitions: 6,
    connections: 4,
    ratePerSecond: 1000,
  },
  records: 10,
  bytes: 1000,
  seconds: 1,
  recordsPerSecond: 10,
  mbPerSecond: 0.001,
  latencyOf: "from when a record was due to its acknowledgement",
  latencyMs: { p50: 1, p90: 2, p99: 3, p999: 4, max: 4, histogram: "SGRyLg==" },
  percentiles: [
    [0, 1],
    [1, 4],
  ],
  timeline: [{ atMs: 0, records: 10, p50Ms: 1, p99Ms: null, maxMs: 4 }],
  faults: [{ atMs: 1, untilMs: 2, label: "kill", gapMs: null, allowedGapMs: 1000 }],
  errors: { CLOSED: 1 },
  cpuSecondsPerGB: { client: 1, brokers: null },
  diskBytesPerByte: 2,
  ratio: { toRawDisk: 0.5, toRawSocket: null },
  driverLateMs: null,
  processes: [{ atMs: 0, process: "node 1", rssBytes: 1, openFiles: 1 }],
  remarks: [],
};

const RESULT: BenchResult = {
  version: 1,
  machine: { cpu: "x", cores: 2, memoryBytes: 1, kernel: "6", node: "v20", ottla: "0.1.0" },
  commit: "abc",
  startedAt: "2026-01-01T00:00:00.000Z",
  command: "ottla bench produce",
  isComplete: true,
  cluster: { brokers: 3, isOwn: true },
  limits: { rawDiskMBs: 1000, rawSocketMBs: null },
  runs: [RUN],
};

/** As JSON, with one field changed by its path; undefined removes it. */
function changed(path: string, value: unknown): string {
  const document = JSON.parse(resultText(RESULT)) as Record<string, unknown>;
  const names = path.split(".");
  let at = document;
  for (const name of names.slice(0, -1)) at = at[name] as Record<string, unknown>;
  const last = names.at(-1) ?? "";
  if (value === undefined) delete at[last];
  else at[last] = value;
  return JSON.stringify(document);
}

const refusal = (text: string): OttlaError => {
  try {
    parseResult(text, "r.json");
  } catch (thrown) {
    if (thrown instanceof OttlaError) return thrown;
    throw thrown;
  }
  throw new Error("it was taken");
};

describe("a result file", () => {
  it("comes back as it was written", () => {
    expect(parseResult(resultText(RESULT), "r.json")).toEqual(RESULT);
  });

  it.each([
    ["version", 2, /^r\.json is no result of ottla bench: version: /],
    ["extra", 1, /extra/],
    ["runs.0.seconds", undefined, /runs\.0\.seconds/],
    ["runs.0.seconds", "1", /runs\.0\.seconds/],
    ["runs.0.records", -1, /runs\.0\.records/],
    ["runs.0.labels.mode", "half", /runs\.0\.labels\.mode/],
    ["runs.0.labels.more", [1], /runs\.0\.labels\.more/],
    ["runs.0.latencyMs.p98", 1, /latencyMs/],
    ["runs.0.percentiles.0.0", 1.5, /percentiles\.0\.0/],
    ["runs.0.timeline.0.maxMs", "x", /timeline\.0\.maxMs/],
    ["runs.1", RUN, /two runs have one name/],
    ["limits", undefined, /limits/],
  ])("with %s = %j is refused by name", (path, value, message) => {
    const error = refusal(changed(path, value));
    expect(error.code).toBe("INVALID_CONFIG");
    expect(error.message).toMatch(message);
  });

  it("that is no JSON, or cut, is refused", () => {
    expect(refusal("hello").message).toMatch(/^r\.json is no result of ottla bench: it is no JSON/);
    expect(refusal(resultText(RESULT).slice(0, -20)).code).toBe("INVALID_CONFIG");
    expect(refusal("[]").code).toBe("INVALID_CONFIG");
  });

  it("takes labels that it does not know", () => {
    const text = changed("runs.0.labels.fault", "leader killed");
    expect(parseResult(text, "r.json").runs[0]?.labels["fault"]).toBe("leader killed");
  });
});
