// From values to places on an axis, and which values the axis names.

export interface Tick {
  readonly value: number;
  readonly at: number;
  /** A line without words. */
  readonly isMinor: boolean;
  /** Keeps its words where there is no room for all of them. */
  readonly isMain: boolean;
}

export interface Scale {
  readonly kind: "linear" | "log" | "percentile";
  readonly fromAt: number;
  readonly toAt: number;
  at(value: number): number;
  readonly ticks: readonly Tick[];
}

export interface Extent {
  readonly min: number;
  readonly max: number;
}

export interface Place {
  readonly fromAt: number;
  readonly toAt: number;
}

/** Of what is finite; undefined: nothing is. */
export function extentOf(values: Iterable<number>): Extent | undefined {
  let [min, max] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return min > max ? undefined : { min, max };
}

/** 1, 2 or 5 times a power of ten: the smallest that makes at most so many steps. */
function niceStep(span: number, stepsMax: number): number {
  const rough = span / Math.max(stepsMax, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999_999) ?? 10) * power;
}

export interface LinearOptions extends Place {
  readonly stepsMax: number;
  /** The axis ends at a tick; else at the largest value. */
  readonly isRounded?: boolean;
}

/** Differences below it are none. */
const SPAN_MIN = 1e-9;

/** From 0 or `min` on. */
export function linearScale({ min, max }: Extent, { fromAt, toAt, stepsMax, isRounded = true }: LinearOptions): Scale {
  const span = max - min > SPAN_MIN ? max - min : 1;
  const step = niceStep(span, stepsMax);
  const low = isRounded ? Math.floor(min / step + 1e-9) * step : min;
  const high = isRounded ? Math.ceil((min + span) / step - 1e-9) * step : min + span;
  const at = (value: number): number => fromAt + ((clamp(value, low, high) - low) / (high - low)) * (toAt - fromAt);
  const ticks: Tick[] = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count++) {
    const value = Number((count * step).toPrecision(12));
    ticks.push({ value, at: at(value), isMinor: false, isMain: true });
  }
  return { kind: "linear", fromAt, toAt, at, ticks };
}

const SMALLEST = 1e-6;

/** Ends at 1, 2 or 5 times a power of ten. What is 0 or less lies at the lower end. */
export function logScale({ min, max }: Extent, { fromAt, toAt }: Place): Scale {
  const low = niceBelow(Math.max(Math.min(min, max), SMALLEST));
  const high = Math.max(niceAbove(Math.max(max, SMALLEST)), low * 10);
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const at = (value: number): number =>
    fromAt + ((Math.log10(clamp(value, low, high)) - from) / (to - from)) * (toAt - fromAt);
  const decades = to - from;
  const ticks: Tick[] = [];
  for (let power = Math.floor(from); power <= Math.ceil(to); power++)
    for (let factor = 1; factor <= 9; factor++) {
      const value = Number((factor * 10 ** power).toPrecision(12));
      if (value < low * 0.999_999 || value > high * 1.000_001) continue;
      ticks.push({ value, at: at(value), isMinor: !isNamed(factor, decades), isMain: factor === 1 });
    }
  return { kind: "log", fromAt, toAt, at, ticks };
}

const isNamed = (factor: number, decades: number): boolean =>
  factor === 1 || (decades <= 3.2 && (factor === 2 || factor === 5));

function niceBelow(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return ([5, 2, 1].find((factor) => factor * power <= value * 1.000_001) ?? 1) * power;
}

function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return ([1, 2, 5, 10].find((factor) => factor * power >= value * 0.999_999) ?? 10) * power;
}

const QUANTILES = [0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
const WITH_WORDS: ReadonlySet<number> = new Set([0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999]);

/** Each further nine takes as much room: log10 of 1 in how many. `max` is the last quantile that is shown. */
export function percentileScale(max: number, { fromAt, toAt }: Place): Scale {
  const end = Math.max(oneIn(clamp(max, 0, 0.999_999_9)), 1);
  const at = (quantile: number): number =>
    fromAt + (Math.min(oneIn(clamp(quantile, 0, 0.999_999_9)), end) / end) * (toAt - fromAt);
  const ticks = QUANTILES.filter((value) => oneIn(value) <= end + 1e-6).map((value) => ({
    value,
    at: at(value),
    isMinor: !WITH_WORDS.has(value),
    isMain: true,
  }));
  return { kind: "percentile", fromAt, toAt, at, ticks };
}

const oneIn = (quantile: number): number => -Math.log10(1 - quantile);

export const clamp = (value: number, low: number, high: number): number =>
  Number.isFinite(value) ? Math.min(Math.max(value, low), high) : value === Infinity ? high : low;
