// What listings say when the node that answered knows of no controller: what they show is what it knew last.
import { setTimeout as delay } from "node:timers/promises";
import type { Admin } from "../../client/types.ts";
import type { Output } from "../output.ts";

export const OLD_METADATA =
  "no controller is known: this is what was known last, and may be old (ottla cluster health says what is missing)";

const REMARK_TIMEOUT_MS = 2_000;

/** On stderr; the listing is worth seeing all the same. */
export async function controllerRemark(
  admin: Pick<Admin, "describeCluster">,
  output: Pick<Output, "note">,
): Promise<void> {
  // The listing has been had: that this one fails is no reason to fail, and nobody should wait long for it.
  const ended = new AbortController();
  const late = delay(REMARK_TIMEOUT_MS, undefined, { signal: ended.signal }).catch(() => undefined);
  const asked = admin.describeCluster({ timeoutMs: REMARK_TIMEOUT_MS }).catch(() => undefined);
  const cluster = await Promise.race([asked, late]);
  ended.abort();
  if (cluster === undefined || cluster.controllerId < 0) output.note(OLD_METADATA);
}
