// Logger and Metrics of simulated processes: the log goes into the trace, gauges are kept to be looked at.
import type { Logger } from "../ports/logger.ts";
import type { Counter, Gauge, Histogram, Metrics } from "../ports/metrics.ts";
import type { SimWorld } from "./world.ts";

export function createSimLogger(world: SimWorld, node: string): Logger {
  const line = (level: string, event: string, fields: Readonly<Record<string, unknown>> = {}): void => {
    world.sometimes(`log ${level} ${event}`);
    if (world.isTraced) world.note(node, `log ${level}`, `${event} ${describe(fields)}`);
  };
  const logger: Logger = {
    debug: (event, fields) => line("debug", event, fields),
    info: (event, fields) => line("info", event, fields),
    warn: (event, fields) => line("warn", event, fields),
    error: (event, fields) => line("error", event, fields),
    child: () => logger,
  };
  return logger;
}

function describe(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .map(([key, value]) => `${key}=${text(value)}`)
    .join(" ");
}

function text(value: unknown): string {
  if (value instanceof Error)
    return value.cause instanceof Error ? `${value.message} (${value.cause.message})` : value.message;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Values by name; labels are not told apart, since the bounds are per process. */
export class SimMetrics implements Metrics {
  readonly gauges = new Map<string, number>();
  readonly #onGauge: (name: string, value: number) => void;

  /** `onGauge` hears every value that a gauge is set to. */
  constructor(onGauge: (name: string, value: number) => void = () => undefined) {
    this.#onGauge = onGauge;
  }

  counter(name: string): Counter {
    return { add: (amount) => void this.gauges.set(name, (this.gauges.get(name) ?? 0) + amount) };
  }

  gauge(name: string): Gauge {
    return {
      set: (value) => {
        this.gauges.set(name, value);
        this.#onGauge(name, value);
      },
    };
  }

  histogram(): Histogram {
    return { observe: () => undefined };
  }
}
