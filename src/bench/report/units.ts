// Numbers as people read them: three digits that count, the unit of the size at hand.

/** Not known, or not measured. */
export const UNKNOWN = "–";
const NARROW_SPACE = "\u202f";

/** Three significant digits; thousands set apart. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return grouped(Math.round(value));
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 4);
  const text = value.toFixed(decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** 1234567 -> 1 234 567, with spaces that do not break. */
export function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, NARROW_SPACE);
}

/** 12 300 -> 12.3 k. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9)} G`;
  if (size >= 1e6) return `${digits(value / 1e6)} M`;
  if (size >= 1e4) return `${digits(value / 1e3)} k`;
  return digits(value);
}

export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return UNKNOWN;
  if (ms >= 120_000) return `${digits(ms / 60_000)} min`;
  if (ms >= 1_000) return `${digits(ms / 1_000)} s`;
  if (ms >= 1 || ms === 0) return `${digits(ms)} ms`;
  return `${digits(ms * 1_000)} µs`;
}

export function size(bytes: number): string {
  if (!Number.isFinite(bytes)) return UNKNOWN;
  if (bytes >= 1 << 30) return `${digits(bytes / (1 << 30))} GiB`;
  if (bytes >= 1 << 20) return `${digits(bytes / (1 << 20))} MiB`;
  if (bytes >= 1 << 10) return `${digits(bytes / (1 << 10))} KiB`;
  return `${digits(bytes)} B`;
}

export const rate = (recordsPerSecond: number): string => `${short(recordsPerSecond)}/s`;
export const throughput = (mbPerSecond: number): string => `${digits(mbPerSecond)} MB/s`;
export const percent = (share: number): string => (Number.isFinite(share) ? `${digits(share * 100)} %` : UNKNOWN);

/** 0.999 -> 99.9 %. */
export const percentileName = (quantile: number): string =>
  quantile >= 1 ? "max" : `${Number((quantile * 100).toPrecision(10))} %`;
