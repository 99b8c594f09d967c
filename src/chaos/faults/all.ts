// Every kind of fault, by the name that plans use. Each file of this folder adds its own.
import { FAILPOINT_KINDS } from "./failpoint.ts";
import { KILL_KINDS } from "./kill.ts";
import { NETWORK_KINDS } from "./network.ts";
import { PAUSE_KINDS } from "./pause.ts";
import { PROXY_KINDS } from "./proxy-kinds.ts";
import { BEHIND_KINDS } from "./behind.ts";
import { ORDERED_KINDS } from "./ordered.ts";
import { CLOCK_KINDS } from "./clock.ts";
import { COLD_KINDS } from "./corrupt-cold.ts";
import { CORRUPT_KINDS } from "./corrupt.ts";
import { DISK_SWAP_KINDS } from "./corrupt-disk.ts";
import { REFUSED_KINDS } from "./corrupt-refused.ts";
import { DISK_KINDS } from "./disk.ts";
import { POWER_KINDS } from "./power.ts";
import { SPACE_KINDS } from "./space.ts";
import type { FaultKind } from "./types.ts";

export const FAULT_KINDS: readonly FaultKind[] = [
  ...ORDERED_KINDS,
  ...BEHIND_KINDS,
  ...KILL_KINDS,
  ...FAILPOINT_KINDS,
  ...PAUSE_KINDS,
  ...NETWORK_KINDS,
  ...PROXY_KINDS,
  ...POWER_KINDS,
  ...DISK_KINDS,
  ...SPACE_KINDS,
  ...CLOCK_KINDS,
  ...CORRUPT_KINDS,
  ...COLD_KINDS,
  ...REFUSED_KINDS,
  ...DISK_SWAP_KINDS,
];

export function faultKind(name: string): FaultKind | undefined {
  return FAULT_KINDS.find((kind) => kind.name === name);
}
