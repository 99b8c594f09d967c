// Metrics of this process: heap, GC, CPU, file descriptors, event loop. Names and kinds are those of prom-client's default metrics.
import { Counter, processMetrics, type Registry } from "./prometheus.ts";

/** All are brought up to date when they are rendered. */
export function collectProcessMetrics(registry: Registry, prefix: string): void {
  collectCpu(registry, prefix);
  for (const collect of processMetrics()) collect(registry, { prefix, eventLoopMonitoringPrecision: 10 });
}

/** That of the package loads a tracing library. */
function collectCpu(registry: Registry, prefix: string): void {
  const counter = (name: string, help: string, secondsOf: (usage: NodeJS.CpuUsage) => number) => {
    let counted = 0;
    new Counter({
      name: `${prefix}${name}`,
      help,
      registers: [registry],
      collect() {
        const seconds = secondsOf(process.cpuUsage());
        this.inc(seconds - counted);
        counted = seconds;
      },
    });
  };
  const SECOND_US = 1e6;
  counter("process_cpu_user_seconds_total", "User CPU time spent, in seconds.", ({ user }) => user / SECOND_US);
  counter("process_cpu_system_seconds_total", "System CPU time spent, in seconds.", ({ system }) => system / SECOND_US);
  counter(
    "process_cpu_seconds_total",
    "User and system CPU time spent, in seconds.",
    ({ user, system }) => (user + system) / SECOND_US,
  );
}
