// Which brokers a configuration request is about.
import { OttlaError } from "../model/errors.ts";
import { type NodeId, toNodeId } from "../model/ids.ts";

/** "" = every broker that has no value of its own: null. Throws INVALID_REQUEST. */
export function nodeIdOfResource(name: string): NodeId | null {
  if (name === "") return null;
  if (!/^\d{1,5}$/.test(name)) throw new OttlaError("INVALID_REQUEST", `${JSON.stringify(name)} is no node id`);
  return toNodeId(Number(name));
}
