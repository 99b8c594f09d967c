// `leader-epoch-checkpoint` in Kafka's text layout: version, count, then "epoch startOffset" lines. An image for people and Kafka's
// tools, made at a checkpoint; recovery never reads it (D-2).
import { utf8Decode, utf8Encode } from "../base/bytes.ts";
import { toLeaderEpoch, toOffset } from "../model/ids.ts";
import type { EpochEntry } from "./types.ts";

export function encodeEpochCheckpoint(epochs: readonly EpochEntry[]): Uint8Array {
  const lines = ["0", String(epochs.length), ...epochs.map((entry) => `${entry.epoch} ${entry.startOffset}`)];
  return utf8Encode(`${lines.join("\n")}\n`);
}

/** Undefined when the text is not one, or its count is wrong (S-3). */
export function decodeEpochCheckpoint(bytes: Uint8Array): EpochEntry[] | undefined {
  const [version, count, ...rest] = utf8Decode(bytes).trimEnd().split("\n");
  if (version !== "0" || count !== String(rest.length)) return undefined;
  const epochs: EpochEntry[] = [];
  for (const line of rest) {
    const match = /^(\d{1,15}) (\d{1,15})$/.exec(line);
    if (match === null) return undefined;
    epochs.push({ epoch: toLeaderEpoch(Number(match[1])), startOffset: toOffset(Number(match[2])) });
  }
  return epochs;
}
