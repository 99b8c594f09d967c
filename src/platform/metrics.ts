// Metrics through prom-client, one registry per node, every name with the prefix `ottla_`.
import { assert } from "../base/assert.ts";
import type { Metrics } from "../ports/metrics.ts";
import { collectProcessMetrics } from "./process-metrics.ts";
import { Counter, Gauge, Histogram, Registry } from "./prometheus.ts";

const SECONDS_BUCKETS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];
const BYTES_BUCKETS = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

export interface MetricsOptions {
  /** Also heap, GC, CPU and file descriptors of this process. Default true; leave it off for all but one node of a process. */
  readonly processMetrics?: boolean;
}

/** `render` gives the Prometheus text format. */
export type RenderedMetrics = Metrics & { render(): Promise<string>; readonly contentType: string };

type Labels = Readonly<Record<string, string>>;

export function createMetrics(options: MetricsOptions = {}): RenderedMetrics {
  const registry = new Registry();
  if (options.processMetrics ?? true) collectProcessMetrics(registry, "ottla_");
  const families = createFamilies(registry);
  return {
    contentType: registry.contentType,
    render: () => registry.metrics(),
    counter(name, help, labels = {}) {
      const child = families.counter(name, help, labels).labels({ ...labels });
      return { add: (amount) => child.inc(amount) };
    },
    gauge(name, help, labels = {}) {
      const child = families.gauge(name, help, labels).labels({ ...labels });
      return { set: (value) => child.set(value) };
    },
    histogram(name, help, labels = {}) {
      const child = families.histogram(name, help, labels).labels({ ...labels });
      return { observe: (value) => child.observe(value) };
    },
  };
}

/** A family is made at its first use; later uses must have the same kind and label names. */
function createFamilies(registry: Registry) {
  const known = new Map<string, Counter | Gauge | Histogram>();
  const labelNames = new Map<string, string>();

  function family<F extends Counter | Gauge | Histogram>(
    name: string,
    labels: Labels,
    kind: { make(fullName: string, names: string[]): F; matches(metric: unknown): metric is F },
  ): F {
    const fullName = `ottla_${name}`;
    const names = Object.keys(labels).sort();
    const existing = known.get(fullName);
    if (existing === undefined) {
      const made = kind.make(fullName, names);
      known.set(fullName, made);
      labelNames.set(fullName, names.join());
      return made;
    }
    assert(labelNames.get(fullName) === names.join(), `metric ${fullName} is used with two sets of labels`);
    assert(kind.matches(existing), `metric ${fullName} is used as two kinds`);
    return existing;
  }

  const registers = [registry];
  return {
    counter: (name: string, help: string, labels: Labels) =>
      family(name, labels, {
        make: (fullName, names) => new Counter({ name: fullName, help, labelNames: names, registers }),
        matches: (metric) => metric instanceof Counter,
      }),
    gauge: (name: string, help: string, labels: Labels) =>
      family(name, labels, {
        make: (fullName, names) => new Gauge({ name: fullName, help, labelNames: names, registers }),
        matches: (metric) => metric instanceof Gauge,
      }),
    histogram: (name: string, help: string, labels: Labels) =>
      family(name, labels, {
        make: (fullName, names) => {
          const buckets = name.endsWith("_bytes") ? BYTES_BUCKETS : SECONDS_BUCKETS;
          return new Histogram({ name: fullName, help, labelNames: names, buckets, registers });
        },
        matches: (metric) => metric instanceof Histogram,
      }),
  };
}
