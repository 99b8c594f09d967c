// The one formula that says what is committed.

/**
 * Where the high watermark may stand: the smallest durable end over the in-sync replicas (D-35: never what was only sent or written).
 *
 * Shape:     `durableEnds`: one exclusive end per ISR member, the leader's own among them.
 * Invariant: the result is >= `current` and, where it moved, <= every durable end. It stands still while fewer than `minIsr`
 *            replicas are in sync (R-3, strict).
 * Example:   durable ends [10, 7], minIsr 2, current 5 -> 7.
 *            durable ends [10], minIsr 2, current 5 -> 5.
 *            durable ends [10, 4], minIsr 2, current 5 -> 5: a member behind the mark never takes it back.
 */
export function nextHighWatermark(
  current: number,
  state: { readonly durableEnds: readonly number[]; readonly minIsr: number },
): number {
  const { durableEnds, minIsr } = state;
  if (durableEnds.length === 0 || durableEnds.length < minIsr) return current;
  let smallest = Number.MAX_SAFE_INTEGER;
  for (const end of durableEnds) if (end < smallest) smallest = end;
  return smallest > current ? smallest : current;
}
