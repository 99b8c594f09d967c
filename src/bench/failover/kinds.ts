// The ways in which a leader goes, and how long a partition may take nothing then (D-37).

export const KINDS = ["kill", "controller", "pause", "pause-controller", "cut", "cut-controller", "stop"] as const;
export type Kind = (typeof KINDS)[number];

export const KIND_WORDS: Readonly<Record<Kind, string>> = {
  kill: "leader killed",
  controller: "leader that is the controller killed",
  pause: "leader paused",
  "pause-controller": "leader that is the controller paused",
  cut: "leader cut off",
  "cut-controller": "leader that is the controller cut off",
  stop: "leader restarted in order",
};

/** The longest gap that is allowed, and what nine of ten stay within. */
export const FAILOVER_LIMITS: Readonly<Record<Kind, { readonly maxMs: number; readonly p90Ms?: number }>> = {
  kill: { maxMs: 2_500, p90Ms: 1_200 },
  controller: { maxMs: 3_000 },
  pause: { maxMs: 4_000 },
  "pause-controller": { maxMs: 6_000 },
  cut: { maxMs: 4_000 },
  "cut-controller": { maxMs: 6_000 },
  stop: { maxMs: 250 },
};

/**
 * While the node comes back and is given its partitions again, which happens in order. One that was stopped in order must not be noticed at all; the
 * others have to be recovered first, by a process that starts on the same machine.
 */
const RETURN_LIMITS = { stop: 250, others: 500 } as const;
export const returnLimitMs = (kind: Kind): number => (kind === "stop" ? RETURN_LIMITS.stop : RETURN_LIMITS.others);

/** Needs a network for each node. */
export const isCut = (kind: Kind): boolean => kind === "cut" || kind === "cut-controller";

export interface Planned {
  readonly kind: Kind;
  readonly times: number;
}

export interface VictimOptions {
  readonly nodes: readonly number[];
  readonly controllerId: number;
  readonly time: number;
}

/** Every node leads two of six; the next one in turn of those that are right. */
export function victimOf(kind: Kind, { nodes, controllerId, time }: VictimOptions): number {
  const isOfController = kind === "controller" || kind.endsWith("-controller");
  const fit = kind === "stop" ? nodes : nodes.filter((node) => (node === controllerId) === isOfController);
  const node = fit[time % fit.length];
  if (node === undefined) throw new Error(`no node to ${kind}: the controller is ${controllerId}`);
  return node;
}
