// Replay of the journals over a checkpoint image, in two passes (D-2, D-11, D-13, D-14).
//
// The survey reads the chain to its end, decides between tail and damage, and works out what every log goes through. Only then
// the apply pass touches segment files. Everything is by log id; names are for people.
import { utf8Decode } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import type { FileHandle, Files } from "../ports/files.ts";
import type { Checksum } from "../ports/checksum.ts";
import { listOrEmpty, orClose } from "./file-work.ts";
import { ByteReader, readChecked } from "./format.ts";
import { type Image, type LogImage, readSpec } from "./image.ts";
import { KIND, type JournalRecord } from "./journal-record.ts";
import {
  findProofOfSync,
  type JournalEnd,
  type JournalHeader,
  readJournal,
  readJournalHeader,
} from "./journal-reader.ts";
import { JOURNAL_DIR, join, journalName } from "./paths.ts";
import type { Damage, LogSpec } from "./types.ts";
import { toLogId, toOffset, type DirectoryId } from "../model/ids.ts";

/** What the journals do to one log. */
export interface LogHistory {
  readonly logId: number;
  readonly spec: LogSpec;
  /** From the image; undefined for a log created since. */
  readonly image: LogImage | undefined;
  /** Where a log created since began. */
  readonly createdAt: number;
  startOffset: number;
  endOffset: number;
  isDeleted: boolean;
  damage: Damage | undefined;
  hasRecords: boolean;
  /**
   * The lowest TRUNCATE below the image's end and the last record that cut there. The segments behind it may hold anything, so appends before
   * that record are not written to them.
   */
  lowestCut: { readonly to: number; readonly sequence: number } | undefined;
}

export interface JournalFileFound {
  readonly handle: FileHandle;
  readonly header: JournalHeader;
  readonly end: JournalEnd;
}

export interface Survey {
  readonly files: JournalFileFound[];
  readonly histories: Map<number, LogHistory>;
  /** Ids with appends of which neither the image nor a CREATE speaks. Bound: ids in the journals. */
  readonly strangers: ReadonlySet<number>;
  /** Ids of which only a DELETE tells who they were: deleted while the checkpoint of the image was made, which left them out. Same bound. */
  readonly departed: ReadonlySet<number>;
  /** Set when bytes that were durable are missing from the chain. */
  readonly damage: string | undefined;
  readonly newestGeneration: number;
}

interface ReplayDeps {
  readonly files: Files;
  readonly checksum: Checksum;
  /** "read" for a look from outside; recovery may have to write the journals again. */
  readonly mode: "read" | "write";
}

interface SurveyOptions {
  readonly root: string;
  readonly image: Image;
  readonly directoryId: DirectoryId;
}

/** The files of what it gives are open: the caller's to close. */
export async function surveyJournals(deps: ReplayDeps, options: SurveyOptions): Promise<Survey> {
  const files: JournalFileFound[] = [];
  try {
    return await followChain(deps, options, files);
  } catch (thrown) {
    await closeJournals(files).catch(() => undefined);
    throw thrown;
  }
}

export async function closeJournals(files: readonly JournalFileFound[]): Promise<void> {
  for (const { handle } of files) await handle.close();
}

async function followChain(deps: ReplayDeps, options: SurveyOptions, files: JournalFileFound[]): Promise<Survey> {
  const { image } = options;
  const histories = new Map(image.logs.map((log) => [log.logId as number, historyOf(log)]));
  const strangers = new Set<number>();
  const departed = new Set<number>();
  let damage: string | undefined;
  for (let generation = image.generation; ; generation++) {
    const opened = await openJournal(deps, { root: options.root, generation });
    const fault = opened && headerFault(opened.header, { ...options, previous: files.at(-1), generation });
    // A file that begins a chain of its own was made by a recovery that did not come to its end.
    const isAbandoned = files.length > 0 && opened?.header?.prevGeneration === 0;
    if (opened === undefined || opened.header === undefined || fault !== undefined || isAbandoned) {
      await opened?.handle.close();
      // The superblock's own generation was durable before the superblock; a later one may not have been begun.
      if (generation === image.generation) damage = fault ?? `journal ${journalName(generation)} is missing`;
      else damage ??= fault;
      break;
    }
    const { handle, header } = opened;
    const visit = (record: JournalRecord): void => {
      if (!histories.has(record.logId)) noteUnknown(record, { strangers, departed });
      note(histories, record);
    };
    const end = await orClose(handle, () =>
      readJournal(handle, { header, checksum: deps.checksum, keepsNothing: true, visit }),
    );
    files.push({ handle, header, end });
    if (end.isSealed) continue;
    damage = await breakIsDamage(deps, { root: options.root, found: { handle, header, end } });
    break;
  }
  const newestGeneration = image.generation + Math.max(files.length, 1);
  return { files, histories, strangers, departed, damage, newestGeneration };
}

/** A log that was deleted beside a checkpoint is not in its image, and what was appended before is in the next journal. */
function noteUnknown(
  { kind, logId }: JournalRecord,
  { strangers, departed }: { readonly strangers: Set<number>; readonly departed: Set<number> },
): void {
  if (kind === KIND.APPEND) strangers.add(logId);
  if (kind !== KIND.DELETE) return;
  strangers.delete(logId);
  departed.add(logId);
}

/** Of a log of which only its directory tells. */
export function unknownHistory(
  logId: number,
  { topicId, topic, partition }: LogSpec,
  damage: Damage | undefined,
): LogHistory {
  return {
    logId,
    spec: { topicId, topic, partition },
    image: undefined,
    createdAt: 0,
    startOffset: 0,
    endOffset: 0,
    damage,
    isDeleted: false,
    // Its records, if there are any, are all that is left of it.
    hasRecords: true,
    lowestCut: undefined,
  };
}

function historyOf(log: LogImage): LogHistory {
  const { logId, spec, startOffset, endOffset, damage } = log;
  return {
    logId,
    spec,
    image: log,
    createdAt: startOffset,
    startOffset,
    endOffset,
    damage,
    isDeleted: false,
    hasRecords: false,
    lowestCut: undefined,
  };
}

async function openJournal(
  deps: ReplayDeps,
  options: { readonly root: string; readonly generation: number },
): Promise<{ handle: FileHandle; header: JournalHeader | undefined } | undefined> {
  const name = journalName(options.generation);
  const directory = join(options.root, JOURNAL_DIR);
  if (!(await listOrEmpty(deps.files, directory)).some((entry) => entry.name === name)) return undefined;
  const handle = await deps.files.open(join(directory, name), deps.mode);
  return { handle, header: await orClose(handle, () => readJournalHeader(handle, deps.checksum)) };
}

/** Why a journal file does not belong here. Its header was durable before it had its name. */
function headerFault(
  header: JournalHeader | undefined,
  expected: {
    readonly generation: number;
    readonly directoryId: DirectoryId;
    readonly previous: JournalFileFound | undefined;
  },
): string | undefined {
  const name = journalName(expected.generation);
  if (header === undefined) return `journal ${name} has no header`;
  if (header.generation !== expected.generation)
    return `journal ${name} says that it is generation ${header.generation}`;
  if (header.directoryId !== expected.directoryId) return `journal ${name} belongs to another directory`;
  const { previous } = expected;
  if (previous === undefined || header.prevGeneration === 0) return undefined;
  const follows =
    header.prevCrc === previous.end.lastCrc &&
    header.prevSequence === previous.end.lastSequence &&
    header.prevLength === previous.end.position;
  return follows ? undefined : `journal ${name} does not follow the end of the one before`;
}

/** A chain that ends without a SEAL: its torn tail, or a hole in what was durable (D-11)? */
async function breakIsDamage(
  deps: ReplayDeps,
  options: { readonly root: string; readonly found: JournalFileFound },
): Promise<string | undefined> {
  if (mutant("D-11") || mutant("M21")) return undefined;
  const { handle, header, end } = options.found;
  const name = journalName(header.generation);
  const next = await openJournal(deps, { root: options.root, generation: header.generation + 1 });
  await next?.handle.close();
  // A header is written only after the file before it was wholly synced.
  if (next?.header?.prevGeneration === header.generation)
    return `journal ${name} breaks at position ${end.position}, but a later journal proves more`;
  const proof = await findProofOfSync(handle, { header, end, checksum: deps.checksum });
  return proof === undefined
    ? undefined
    : `journal ${name} breaks at position ${end.position}, but the record at ${proof} proves that more was synced`;
}

/** Follows what a record does to its log. Records of unknown ids are of logs that are gone (D-14). */
function note(histories: Map<number, LogHistory>, record: JournalRecord): void {
  if (record.kind === KIND.CREATE) return noteCreate(histories, record);
  const history = histories.get(record.logId);
  if (history === undefined || history.isDeleted) return;
  history.hasRecords = true;
  if (record.kind === KIND.DELETE) history.isDeleted = true;
  else if (record.kind === KIND.APPEND) noteAppend(history, record);
  else if (record.kind === KIND.TRUNCATE) noteTruncate(history, record);
  else if (record.kind === KIND.DAMAGED) history.damage ??= damageOf(record);
  else if (record.kind === KIND.LOG_START) history.startOffset = Math.max(history.startOffset, record.base);
}

function noteCreate(histories: Map<number, LogHistory>, record: JournalRecord): void {
  if (histories.has(record.logId)) return;
  const spec = readChecked(JOURNAL_DIR, () => readSpec(new ByteReader(record.body)));
  histories.set(record.logId, {
    logId: toLogId(record.logId),
    spec,
    image: undefined,
    createdAt: record.base,
    startOffset: record.base,
    endOffset: record.base,
    damage: undefined,
    isDeleted: false,
    hasRecords: true,
    lowestCut: undefined,
  });
}

function noteAppend(history: LogHistory, record: JournalRecord): void {
  if (record.base !== history.endOffset) {
    history.damage ??= {
      reason: `the journal appends at offset ${record.base} where the log ends at ${history.endOffset} (record ${record.sequence})`,
      fromOffset: toOffset(Math.min(record.base, history.endOffset)),
    };
  }
  history.endOffset = record.last + 1;
}

function damageOf(record: JournalRecord): Damage {
  return { reason: utf8Decode(record.body), fromOffset: record.base < 0 ? undefined : toOffset(record.base) };
}

function noteTruncate(history: LogHistory, record: JournalRecord): void {
  history.endOffset = Math.min(history.endOffset, record.base);
  const provenEnd = history.image?.endOffset ?? 0;
  if (record.base < provenEnd && record.base <= (history.lowestCut?.to ?? record.base)) {
    history.lowestCut = { to: record.base, sequence: record.sequence };
  }
}

/** Log ids by which the records of a log are found; the planted bug goes by directory name. */
export function resolver<T extends { readonly spec: LogSpec }>(
  live: ReadonlyMap<number, T>,
  histories: ReadonlyMap<number, LogHistory>,
): (logId: number) => T | undefined {
  if (!mutant("D-14")) return (logId) => live.get(logId);
  const nameOf = (spec: LogSpec): string => `${spec.topic}-${spec.partition}`;
  return (logId) => {
    const spec = histories.get(logId)?.spec;
    if (spec === undefined) return undefined;
    return [...live.values()].find((each) => nameOf(each.spec) === nameOf(spec));
  };
}

/** Makes durable what the journals say before anything that they allow to go is cut: their bytes may be in the page cache only (D-13). */
export async function rewriteJournals(
  files: readonly JournalFileFound[],
  sync: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  for (const { handle, end } of files) {
    const buffer = new Uint8Array(1024 * 1024);
    for (let position = 0; position < end.position; ) {
      const length = await handle.read(position, buffer.subarray(0, Math.min(buffer.length, end.position - position)));
      if (length === 0) break;
      await handle.write(position, [buffer.slice(0, length)]);
      position += length;
    }
    await sync(handle);
  }
}
