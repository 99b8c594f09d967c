// The real Checksum: the processor's CRC-32C instruction through @node-rs/crc32, plain JavaScript for short inputs and where
// the native module does not load.
import { createRequire } from "node:module";
import { crc32cJs } from "../base/crc32c.ts";
import type { Checksum } from "../ports/checksum.ts";

type Crc32c = (bytes: Uint8Array, seed?: number) => number;

/** Below this many bytes the call into native code costs more than it saves. */
const NATIVE_BYTES_MIN = 256;

function loadNative(): Crc32c | undefined {
  try {
    const loaded = createRequire(import.meta.url)("@node-rs/crc32") as { readonly crc32c: Crc32c };
    return loaded.crc32c;
  } catch {
    return undefined; // no binary for this platform: the same sums, six times slower
  }
}

/** `isNative` false forces the JavaScript sums. */
export function createChecksum(options: { readonly isNative?: boolean } = {}): Checksum {
  const native = options.isNative === false ? undefined : loadNative();
  if (native === undefined) return { crc32c: crc32cJs };
  return {
    crc32c: (bytes, seed = 0) => (bytes.length < NATIVE_BYTES_MIN ? crc32cJs(bytes, seed) : native(bytes, seed)),
  };
}
