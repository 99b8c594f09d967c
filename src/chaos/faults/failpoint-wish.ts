// What OTTLA_FAILPOINT says: the name of a failpoint, and at which of the times that it is reached the process dies.
import { FAILPOINTS, type FailpointName } from "../../base/failpoint-names.ts";

export interface FailpointWish {
  readonly name: FailpointName;
  readonly count: number;
}

export const isFailpoint = (name: string): name is FailpointName => Object.hasOwn(FAILPOINTS, name);

/** `name` or `name:n`. Throws for what is neither: a failpoint that is never reached would look like a node that survives it. */
export function parseFailpoint(text: string): FailpointWish {
  const [name = "", count = "1", ...more] = text.split(":");
  if (!isFailpoint(name) || !/^[1-9]\d{0,8}$/.test(count) || more.length > 0)
    throw new Error(`OTTLA_FAILPOINT="${text}": name or name:n, of ${Object.keys(FAILPOINTS).join(", ")}`);
  return { name, count: Number(count) };
}

/** The same text again. */
export const failpointText = ({ name, count }: FailpointWish): string => `${name}:${count}`;
