// Every kind of fault, by the name that plans use. Each file of this folder adds its own.
import type { FaultKind } from "./types.ts";

export const FAULT_KINDS: readonly FaultKind[] = [];

export function faultKind(name: string): FaultKind | undefined {
  return FAULT_KINDS.find((kind) => kind.name === name);
}
