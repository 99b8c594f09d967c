// What a command's code is called with.
import type { GlobalFlags, Output } from "./output.ts";

export interface Invocation<Flags = unknown> {
  readonly args: readonly string[];
  readonly flags: Flags & GlobalFlags;
  readonly output: Output;
}
