// Replicas of a partition compared byte for byte, from the files of stopped nodes: all batches of its segments, one after the other. Segments may be
// cut at other places on each node, batches may not.
import { createHash, type Hash } from "node:crypto";
import { closeSync, existsSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";

const CHUNK_BYTES = 1024 * 1024;
const SEGMENT = /^\d{20}\.log$/;

export interface ReplicaSum {
  readonly sizeBytes: number;
  readonly sum: string;
}

/** Undefined: the node has no such replica. */
export function sumOfReplica(
  dataDir: string,
  place: { readonly topic: string; readonly partition: number },
): ReplicaSum | undefined {
  const directory = join(dataDir, `${place.topic}-${place.partition}`);
  if (!existsSync(directory)) return undefined;
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for (const name of readdirSync(directory)
    .filter((file) => SEGMENT.test(file))
    .sort())
    sizeBytes += addFile(hash, join(directory, name));
  return { sizeBytes, sum: hash.digest("hex") };
}

function addFile(hash: Hash, path: string): number {
  const file = openSync(path, "r");
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  let sizeBytes = 0;
  try {
    for (;;) {
      const read = readSync(file, buffer, 0, CHUNK_BYTES, null);
      if (read === 0) return sizeBytes;
      hash.update(buffer.subarray(0, read));
      sizeBytes += read;
    }
  } finally {
    closeSync(file);
  }
}

/** In words: they differ. */
export function difference(sums: ReadonlyMap<number, ReplicaSum | undefined>): string | undefined {
  const told = [...sums].map(
    ([nodeId, sum]) =>
      `node ${nodeId} ${sum === undefined ? "has none" : `${sum.sizeBytes} bytes ${sum.sum.slice(0, 12)}`}`,
  );
  const kinds = new Set([...sums.values()].map((sum) => sum?.sum));
  return kinds.size > 1 || kinds.has(undefined) ? told.join(", ") : undefined;
}
