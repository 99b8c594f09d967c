// Power loss of a node that is dead: takes back a random part of what it had not synced.
import type { Rng } from "../../base/rng.ts";

/** What a power loss did to a data directory. */
export interface PowerLoss {
  /** Operations that no sync had covered. */
  readonly pending: number;
  readonly kept: number;
  readonly dropped: number;
  /** Writes of which some sectors were kept. */
  readonly torn: number;
  /** What the journal and the disk do not agree about: something changed the files and did not pass the shim. Empty when all is well. */
  readonly problems: readonly string[];
}

export async function losePower(
  paths: { readonly dataDir: string; readonly undoDir: string },
  rng: Rng,
): Promise<PowerLoss> {
  return Promise.reject(new Error(`no power loss yet: ${paths.dataDir} ${rng.u32()}`));
}
