// ottla log dump|verify: the files of a stopped node, looked at offline.
import type { Invocation } from "../invocation.ts";
import { UsageError } from "../values.ts";

export async function logDump(invocation: Invocation): Promise<number> {
  throw new UsageError(`log dump ${invocation.args[0]}: not in this build`);
}

export async function logVerify(invocation: Invocation): Promise<number> {
  throw new UsageError(`log verify ${invocation.args[0]}: not in this build`);
}
