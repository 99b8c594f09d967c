// Metrics in Prometheus' text format, with the prefix, one family per name.
import { collectDefaultMetrics, Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { AssertionFailure } from "../../src/base/assert.ts";
import { createMetrics } from "../../src/platform/metrics.ts";

const create = () => createMetrics({ processMetrics: false });

describe("metrics", () => {
  it("render counters, gauges and histograms under ottla_", async () => {
    const metrics = create();
    metrics.counter("requests_total", "Requests.", { api: "produce" }).add(2);
    metrics.counter("requests_total", "Requests.", { api: "fetch" }).add(1);
    metrics.gauge("partitions", "Partitions.").set(6);
    const histogram = metrics.histogram("request_duration_seconds", "How long.");
    histogram.observe(0.003);
    histogram.observe(0.3);
    const text = await metrics.render();
    expect(text).toContain('ottla_requests_total{api="produce"} 2\n');
    expect(text).toContain('ottla_requests_total{api="fetch"} 1\n');
    expect(text).toContain("ottla_partitions 6\n");
    expect(text).toContain('ottla_request_duration_seconds_bucket{le="0.005"} 1\n');
    expect(text).toContain("ottla_request_duration_seconds_count 2\n");
  });

  it("buckets fit the unit in the name", async () => {
    const metrics = create();
    metrics.histogram("produce_batch_bytes", "Sizes.").observe(70_000);
    expect(await metrics.render()).toContain('ottla_produce_batch_bytes_bucket{le="262144"} 1\n');
  });

  it("two registries do not meet", async () => {
    const [left, right] = [create(), create()];
    left.counter("a_total", "A.").add(1);
    right.counter("a_total", "A.").add(5);
    expect(await left.render()).toContain("ottla_a_total 1");
    expect(await right.render()).toContain("ottla_a_total 5");
  });

  it("one name has one kind and one set of labels", () => {
    const metrics = create();
    metrics.counter("a_total", "A.", { api: "x" });
    expect(() => metrics.counter("a_total", "A.")).toThrow(AssertionFailure);
    expect(() => metrics.gauge("a_total", "A.", { api: "x" })).toThrow(AssertionFailure);
  });

  it("with process metrics: memory and event loop", async () => {
    const text = await createMetrics().render();
    expect(text).toMatch(/ottla_process_resident_memory_bytes \d+/);
    expect(text).toMatch(/ottla_nodejs_eventloop_lag_seconds /);
  });

  it("of the process have the names and kinds of prom-client's own", async () => {
    const registry = new Registry();
    collectDefaultMetrics({ register: registry, prefix: "ottla_" });
    const kindsIn = (text: string) =>
      text
        .split("\n")
        .filter((line) => line.startsWith("# TYPE "))
        .sort();
    const kinds = kindsIn(await registry.metrics());
    expect(kinds.length).toBeGreaterThan(20);
    expect(kindsIn(await createMetrics().render())).toEqual(kinds);
  });

  it("count the CPU time of the process, more at each look", async () => {
    const metrics = createMetrics();
    const secondsNow = async () => Number(/ottla_process_cpu_seconds_total ([\d.]+)/.exec(await metrics.render())?.[1]);
    const before = await secondsNow();
    const { user, system } = process.cpuUsage();
    expect(before).toBeGreaterThan(0);
    const after = await secondsNow();
    expect(after).toBeGreaterThanOrEqual((user + system) / 1e6);
    expect(after).toBeGreaterThanOrEqual(before);
  });
});
