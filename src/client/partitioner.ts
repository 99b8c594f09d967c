// Which partition a key belongs to: Kafka's default partitioner, so that both systems put one key into the same partition.

const SEED = 0x9747b28c;
const FACTOR = 0x5bd1e995;

/** murmur2 as Kafka computes it: a signed 32-bit integer. */
export function murmur2(bytes: Uint8Array): number {
  const length = bytes.length;
  const wholeWords = length & ~3;
  let hash = SEED ^ length;
  for (let at = 0; at < wholeWords; at += 4) {
    let word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    word = Math.imul(word, FACTOR);
    word ^= word >>> 24;
    hash = Math.imul(hash, FACTOR) ^ Math.imul(word, FACTOR);
  }
  if (wholeWords < length) {
    for (let at = length - 1; at >= wholeWords; at--) hash ^= (bytes[at] as number) << ((at & 3) * 8);
    hash = Math.imul(hash, FACTOR);
  }
  hash = Math.imul(hash ^ (hash >>> 13), FACTOR);
  return hash ^ (hash >>> 15);
}

export function partitionOfKey(key: Uint8Array, partitionCount: number): number {
  return (murmur2(key) & 0x7fffffff) % partitionCount;
}
