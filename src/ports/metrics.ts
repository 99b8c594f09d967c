// Counters, gauges and histograms, named as in Prometheus and without the `ottla_` prefix. Get them once, at construction:
// observing is cheap, looking one up is not.
export interface Counter {
  add(amount: number): void;
}

export interface Gauge {
  set(value: number): void;
}

export interface Histogram {
  /** In the unit that the name ends with: seconds or bytes. */
  observe(value: number): void;
}

export interface Metrics {
  counter(name: string, help: string, labels?: Readonly<Record<string, string>>): Counter;
  gauge(name: string, help: string, labels?: Readonly<Record<string, string>>): Gauge;
  histogram(name: string, help: string, labels?: Readonly<Record<string, string>>): Histogram;
}
