// Names of everything in a data directory.
import type { LogId, PartitionIndex } from "../model/ids.ts";

export const SUPERBLOCK = "superblock";
export const JOURNAL_DIR = "journal";
/** A journal that nobody needs any more, kept to become the next one. */
export const SPARE_JOURNAL = "spare";
export const CHECKPOINT_DIR = "checkpoint";
export const METADATA_DIR = "metadata";
export const RESERVE = "reserve";
export const PARTITION_METADATA = "partition.metadata";
export const EPOCH_CHECKPOINT = "leader-epoch-checkpoint";
export const LOG_SUFFIX = ".log";
export const INDEX_SUFFIX = ".index";
export const TIME_INDEX_SUFFIX = ".timeindex";
export const PRODUCERS_SUFFIX = ".producers";
/** Of the rows of a segment's identity. */
export const IDENT_SUFFIX = ".ident";
/** Of the files beside a segment's log: everything that is replaced or removed with it. */
export const SIDECAR_SUFFIXES: readonly string[] = [INDEX_SUFFIX, TIME_INDEX_SUFFIX, IDENT_SUFFIX];
/** Behind the suffix of a file that is to take another's place. */
export const CLEANED_SUFFIX = ".cleaned";
export const SNAPSHOT_SUFFIX = ".snapshot";
const JOURNAL_SUFFIX = ".journal";
const IMAGE_SUFFIX = ".image";
/** Appended to the name of a journal that is kept as evidence of damage. */
export const DAMAGED_SUFFIX = ".damaged";

export const join = (directory: string, name: string): string => `${directory}/${name}`;

/** 20 digits, as in Kafka (S-1). */
export const offsetName = (base: number): string => String(base).padStart(20, "0");

const generationName = (generation: number): string => String(generation).padStart(10, "0");
export const journalName = (generation: number): string => generationName(generation) + JOURNAL_SUFFIX;
export const imageName = (generation: number): string => generationName(generation) + IMAGE_SUFFIX;

/** The generation in a journal's or image's name; undefined for other names. */
export function generationOf(name: string, kind: "journal" | "image"): number | undefined {
  const match = /^(\d{10,})\.(journal|image)$/.exec(name);
  return match?.[2] === kind ? Number(match[1]) : undefined;
}

/** The base offset in a segment file's name; undefined for other names. */
export function baseOffsetOf(name: string): { readonly base: number; readonly suffix: string } | undefined {
  const match = /^(\d{20})(\.log|\.index|\.timeindex|\.ident)$/.exec(name);
  return match === null ? undefined : { base: Number(match[1]), suffix: match[2] as string };
}

export const isCleanedName = (name: string): boolean => /^\d{20}\.[a-z]+\.cleaned$/.test(name);

export const producersName = (endOffset: number): string => offsetName(endOffset) + PRODUCERS_SUFFIX;

export const snapshotName = (endOffset: number): string => offsetName(endOffset) + SNAPSHOT_SUFFIX;

/** The end of the log in the name of a file with its producers; undefined for other names. */
export function producersEndOf(name: string, suffix = PRODUCERS_SUFFIX): number | undefined {
  if (!name.endsWith(suffix)) return undefined;
  const match = /^(\d{20})$/.exec(name.slice(0, -suffix.length));
  return match === null ? undefined : Number(match[1]);
}

export const partitionDirectory = (topic: string, partition: PartitionIndex): string => `${topic}-${partition}`;

/** Longest name that file systems take; topic names may fill it. */
const NAME_LENGTH_MAX = 255;

/** A log that is being deleted moves here first, so that its name is free at once. A long topic is cut: the log id tells logs apart. */
export function deletedDirectory(topic: string, partition: PartitionIndex, logId: LogId): string {
  const suffix = `-${partition}.${logId}-delete`;
  return topic.slice(0, NAME_LENGTH_MAX - suffix.length) + suffix;
}

/** The partition that a directory is named for; undefined for other names. */
export function partitionOf(name: string): { readonly topic: string; readonly partition: PartitionIndex } | undefined {
  const match = /^(.+)-(0|[1-9]\d{0,8})$/.exec(name);
  return match === null ? undefined : { topic: match[1] as string, partition: Number(match[2]) as PartitionIndex };
}

export const isDeletedDirectory = (name: string): boolean => /^.+-\d+\.\d+-delete$/.test(name);
