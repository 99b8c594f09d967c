// The parts of prom-client that are used, each by its own file: the package as a whole loads tracing, push gateways and summaries, 70 modules and 40 ms of
// every start.
import { createRequire } from "node:module";
import type * as prom from "prom-client";

const load = createRequire(import.meta.url);

export const Counter = load("prom-client/lib/counter.js") as typeof prom.Counter;
export type Counter = prom.Counter;
export const Gauge = load("prom-client/lib/gauge.js") as typeof prom.Gauge;
export type Gauge = prom.Gauge;
export const Histogram = load("prom-client/lib/histogram.js") as typeof prom.Histogram;
export type Histogram = prom.Histogram;
export const Registry = load("prom-client/lib/registry.js") as typeof prom.Registry;
export type Registry = prom.Registry;

/** One or several metrics of the process, as the package's collectDefaultMetrics has them. */
type Collect = (
  registry: Registry,
  config: { readonly prefix: string; readonly eventLoopMonitoringPrecision: number },
) => void;

const PROCESS_METRICS = [
  "processStartTime",
  "osMemoryHeap",
  "processOpenFileDescriptors",
  "processMaxFileDescriptors",
  "eventLoopLag",
  "processResources",
  "processHandles",
  "processRequests",
  "heapSizeAndUsed",
  "heapSpacesSizeAndUsed",
  "version",
  "gc",
];

export function processMetrics(): Collect[] {
  return PROCESS_METRICS.map((name) => load(`prom-client/lib/metrics/${name}.js`) as Collect);
}
