// Reading a whole segment again, to see that it still is what was written (D-16), and its sidecars with it.
import type { FileHandle } from "../ports/files.ts";
import { scanBatches } from "./batch-scan.ts";
import { storageError } from "./faults.ts";
import { withFile } from "./file-work.ts";
import { LOG_SUFFIX } from "./paths.ts";
import type { Segment } from "./segment.ts";
import type { SegmentIdentities } from "./segment-identity.ts";
import type { SegmentFileDeps } from "./segment-indexes.ts";

export interface CheckOptions {
  /** False: the look has become void, and ends. */
  isThere(): boolean;
  /** Before the next piece is read. */
  onRead(sizeBytes: number): Promise<void>;
}

/** Rejects with what cannot be right. */
export async function checkSegment(
  deps: SegmentFileDeps,
  identities: SegmentIdentities,
  segment: Segment,
  { isThere, onRead }: CheckOptions,
): Promise<void> {
  const path = segment.path + LOG_SUFFIX;
  const walk = identities.begin(segment);
  const hasSidecar = await identities.hasSidecar(segment);
  if (!isThere()) return;
  const scanned = await withFile(deps.files, { path, mode: "read" }, (handle) =>
    scanBatches(paced(handle, onRead), {
      from: 0,
      end: walk.end.position,
      checksum: deps.checksum,
      visit: (batch) => isThere() && walk.take(batch),
    }),
  );
  if (!isThere()) return;
  if (scanned.kind !== "end") throw storageError(`${path}: ${scanned.reason} at position ${scanned.position}`);
  if (!identities.isProven(segment, walk))
    throw storageError(`${path}: its batches are not those that were written to it`);
  if (!hasSidecar) identities.makeAnew(segment, walk);
}

function paced(handle: FileHandle, onRead: (sizeBytes: number) => Promise<void>): Pick<FileHandle, "read"> {
  return {
    async read(position, target) {
      await onRead(target.length);
      return handle.read(position, target);
    },
  };
}
