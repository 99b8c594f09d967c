// Planted bugs. `mutant("M2")` is true only while a test has switched that bug on; the published build replaces each call
// by `false` (scripts/strip-mutants.ts), so no switch exists there.

let active: ReadonlySet<string> | null = null;

/** True while the planted bug of this id is switched on. Costs one comparison when none is. */
export function mutant(id: string): boolean {
  return active?.has(id) === true;
}

/** Switches on exactly these planted bugs; an empty list switches all off. For the simulator and its tests only. */
export function activateMutants(ids: readonly string[]): void {
  active = ids.length === 0 ? null : new Set(ids);
}
