// The files of partitions on a simulated disk that a fault may strike.
import type { DiskImage } from "../disk-image.ts";

/** `data/<topic>-<partition>/<file>`: not of one that is being deleted. */
const PARTITION_FILE = /^data\/([^/]+-\d+)\/[^/]+$/;

export interface PartitionFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** <topic>-<partition> */
  readonly partition: string;
}

/** Those that hold something. */
export function partitionFilesOf(image: DiskImage): PartitionFile[] {
  return image.filesBelow("data").flatMap(({ path, sizeBytes }) => {
    const partition = PARTITION_FILE.exec(path)?.[1];
    return partition === undefined || sizeBytes === 0 ? [] : [{ path, sizeBytes, partition }];
  });
}
