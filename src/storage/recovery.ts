// Bringing a data directory back to what its journal proves (D-13): nothing but the checkpoint image and the journal is trusted,
// everything replayed is written and synced again, and a whole checkpoint is made before anything is called durable.
import { failpoint } from "../base/failpoint.ts";
import { mutant } from "../base/mutant.ts";
import { OttlaError } from "../model/errors.ts";
import { toLogId, toOffset } from "../model/ids.ts";
import { removeOld, syncLogs, writeImage } from "./checkpoint-files.ts";
import { lastEpoch, openEpoch, raiseEpochsStart, truncateEpochs } from "./epochs.ts";
import { datasync, isNotFound, isUnreadable, runLimited, syncDirectory } from "./faults.ts";
import { endSwaps } from "./replacement.ts";
import { rowsOf } from "./high-watermark.ts";
import { decodeImage, emptyLogImage, type Image, type LogImage } from "./image.ts";
import type { JournalFile } from "./journal.ts";
import { createJournalFile } from "./journal-file.ts";
import { decodeChain, FLAG_OPENS_EPOCH, KIND, type JournalRecord } from "./journal-record.ts";
import { readJournal } from "./journal-reader.ts";
import { readPartitionMetadata, removeLogDirectory, removeTree } from "./log-directory.ts";
import {
  baseOffsetOf,
  CHECKPOINT_DIR,
  generationOf,
  imageName,
  isCleanedName,
  isDeletedDirectory,
  JOURNAL_DIR,
  join,
  LOG_SUFFIX,
  partitionDirectory,
  partitionOf,
  producersEndOf,
  SNAPSHOT_SUFFIX,
} from "./paths.ts";
import { nobodysTopicId } from "./nobodys-log.ts";
import type { PartitionMetadata } from "./partition-metadata.ts";
import { ProducerReplay } from "./producer-replay.ts";
import {
  closeJournals,
  type LogHistory,
  resolver,
  rewriteJournals,
  type Survey,
  surveyJournals,
  unknownHistory,
} from "./replay.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import { orClose, readWhole, unlinkIfThere, withFile } from "./file-work.ts";
import type { LogStoreImpl } from "./store.ts";
import type { Superblock } from "./superblock.ts";
import type { Damage, EpochEntry } from "./types.ts";

/** So much of replayed batches is held in memory at most, and written out together: few large writes. */
const FLUSH_BYTES = 32 * 1024 * 1024;
/** Logs looked at, or written, at the same time: enough to keep a thread pool of four busy. */
const LOOKS_MAX = 8;

interface LiveLog {
  readonly spec: LogHistory["spec"];
  readonly history: LogHistory;
  readonly log: ReplicaLogImpl;
  readonly producers: ProducerReplay;
}

/** Recovers into the store and makes a checkpoint; `commit` makes the new superblock durable. Gives the journal to go on with. */
export async function recover(
  store: LogStoreImpl,
  options: {
    readonly superblock: Superblock;
    /** Makes the superblock that was found durable: it may be in the page cache only. */
    readonly prove: () => Promise<void>;
    readonly commit: (next: Superblock) => Promise<void>;
  },
): Promise<JournalFile> {
  const { superblock, prove, commit } = options;
  const root = store.config.directory;
  const image = await loadImage(store, superblock.generation);
  // Renames cannot be taken back: nobody may come to the image before any more (D-13).
  if (hasSwaps(image) && !mutant("S-41p")) await prove();
  store.useLogId(Math.max(superblock.nextLogId, image.nextLogId) - 1);
  const survey = await surveyJournals(
    { files: store.deps.files, checksum: store.checksum, mode: "write" },
    { root, image, directoryId: superblock.directoryId },
  );
  // Journals that are gone with their directory are damage of the logs, too, and the next one needs it.
  if (survey.files.length === 0) await store.deps.files.makeDirectory(join(root, JOURNAL_DIR));
  const live = await replay(store, survey);
  for (const { log } of live.values()) log.mark.settle(log);
  await finishProducers(store, live);
  failpoint("recovery-replayed");
  const evidence = evidenceOf(image, survey, live);
  const generation = (await newestGeneration(store)) + 1;
  const journalFile = await commitState(store, { superblock, generation, evidence, commit });
  failpoint("recovery-committed");
  return orClose(journalFile.handle, async () => {
    await removeOld(store.checkpointDeps, { generation, evidence });
    await tidy(store, survey);
    return journalFile;
  });
}

/** Every log that there is, as the journals say, which are closed then. */
async function replay(store: LogStoreImpl, survey: Survey): Promise<Map<number, LiveLog>> {
  try {
    for (const logId of survey.histories.keys()) store.useLogId(logId);
    await noteDirectoryIds(store, survey);
    const live = await openLogs(store, survey);
    if (survey.damage === undefined) await apply(store, survey, live);
    else store.deps.logger.error("journal_damaged", { reason: survey.damage });
    return live;
  } finally {
    await closeJournals(survey.files);
  }
}

async function loadImage(store: LogStoreImpl, generation: number): Promise<Image> {
  const path = join(join(store.config.directory, CHECKPOINT_DIR), imageName(generation));
  try {
    const bytes = await withFile(store.deps.files, { path, mode: "read" }, readWhole);
    return decodeImage(bytes, { path, checksum: store.checksum });
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    throw new OttlaError("DATA_DAMAGED", `${path} is missing: the superblock says that it is there`);
  }
}

/**
 * Ids in directories whose CREATE was lost are not used again either (D-14). Where the journal is damaged the CREATE may be behind the break, and so
 * may everything that was durable since: such a log is damaged, not one that never was (D-11). So is one to which a whole journal appends though nothing
 * speaks of it: no log that was deleted is appended to, so something of it was lost. A directory that does not say whose it is either is one of
 * nobody, damaged: the broker knows whose it must be (LogStore.adoptLog).
 */
async function noteDirectoryIds(store: LogStoreImpl, survey: Survey): Promise<void> {
  const root = store.config.directory;
  const holders = new Map<string, LogHistory>();
  for (const history of survey.histories.values())
    if (!history.isDeleted) holders.set(partitionDirectory(history.spec.topic, history.spec.partition), history);
  // Whose they are is looked at when their logs are opened, unless the journal may have lost that they went to others.
  const isWhole = survey.damage === undefined && survey.strangers.size === 0;
  const entries = (await store.deps.files.list(root)).filter(
    ({ kind, name }) =>
      kind === "directory" &&
      !(isWhole && holders.has(name)) &&
      (partitionOf(name) !== undefined || isDeletedDirectory(name)),
  );
  const unnamed: string[] = [];
  await runLimited(entries, LOOKS_MAX, async ({ name }) => {
    const metadata = await readPartitionMetadata(store.deps, join(root, name));
    if (metadata !== undefined) store.useLogId(metadata.logId);
    if (isDeletedDirectory(name)) return;
    // Nor does one whose file is another's, which a write that went astray has put there.
    if (metadata === undefined || name !== partitionDirectory(metadata.topic, metadata.partition)) unnamed.push(name);
    else if (survey.departed.has(metadata.logId)) noteDeparted(survey, metadata);
    else noteOwner(survey, metadata, holders.get(name));
  });
  for (const name of unnamed) if (!holders.has(name)) noteNobodys(store, survey, name);
}

/** All ids that are in use are known. */
function noteNobodys(store: LogStoreImpl, survey: Survey, name: string): void {
  const place = partitionOf(name);
  if (survey.damage === undefined || place === undefined || mutant("D-17n")) return;
  const logId = store.nextLogId;
  store.useLogId(logId);
  const damage = { reason: `${survey.damage}, and ${name} does not say whose it is`, fromOffset: undefined };
  survey.histories.set(logId, unknownHistory(logId, { topicId: nobodysTopicId(logId), ...place }, damage));
}

/** Its directory goes as that of any deleted log. */
function noteDeparted(survey: Survey, metadata: PartitionMetadata): void {
  const { logId } = metadata;
  if (!survey.histories.has(logId))
    survey.histories.set(logId, { ...unknownHistory(logId, metadata, undefined), isDeleted: true });
}

/** `holder`: the log that the journal knows to have this directory. Its DELETE was durable before the directory named another one, so it is gone. */
function noteOwner(survey: Survey, metadata: PartitionMetadata, holder: LogHistory | undefined): void {
  const { logId } = metadata;
  const reason = survey.strangers.has(logId) ? "the journal appends to a log that nothing speaks of" : survey.damage;
  if (reason === undefined || survey.histories.has(logId) || logId < (holder?.logId ?? 0)) return;
  if (holder !== undefined) holder.isDeleted = true;
  survey.histories.set(logId, unknownHistory(logId, metadata, { reason, fromOffset: undefined }));
}

/** Opens every log that still exists, checking what the image says of its files. */
async function openLogs(store: LogStoreImpl, survey: Survey): Promise<Map<number, LiveLog>> {
  const opened: (LiveLog & { readonly image: LogImage })[] = [];
  for (const history of survey.histories.values()) {
    if (history.isDeleted) continue;
    if (survey.damage !== undefined) history.damage ??= { reason: survey.damage, fromOffset: undefined };
    const image = imageToOpen(history);
    const log = store.addLog(image);
    const producers = new ProducerReplay(store.deps, { log, image, cutTo: history.lowestCut?.to });
    opened.push({ spec: history.spec, history, image, log, producers });
  }
  await runLimited(opened, LOOKS_MAX, async ({ history, log, image, producers }) => {
    await endItsSwaps(store, { log, image });
    log.damage ??= history.damage ?? (await filesFault(store, { history, log, image })) ?? (await producers.begin());
    if (log.damage !== undefined) tellDamage(store, log, log.damage);
  });
  return new Map(opened.map((each) => [each.history.logId, each]));
}

const hasSwaps = (image: Pick<Image, "logs">): boolean =>
  image.logs.some(({ segments }) => segments.some(({ isSwapped }) => isSwapped));

/** Before anything looks at its segments. A directory that is another log's by now is left alone. */
async function endItsSwaps(
  store: LogStoreImpl,
  { log, image }: { readonly log: ReplicaLogImpl; readonly image: LogImage },
): Promise<void> {
  if (!image.segments.some(({ isSwapped }) => isSwapped)) return;
  const { directory } = log.segments;
  const metadata = await readPartitionMetadata(store.deps, directory);
  if (metadata?.logId !== log.logId) return;
  await endSwaps(store.deps.files, { directory, segments: image.segments });
  log.segments.isDirectoryDirty = true;
}

function tellDamage(store: LogStoreImpl, { topic, partition }: ReplicaLogImpl, { reason, fromOffset }: Damage): void {
  store.deps.logger.error("log_damaged", { topic, partition, reason, fromOffset });
}

/** The logs and their high watermarks are as they will be. */
async function finishProducers(store: LogStoreImpl, live: ReadonlyMap<number, LiveLog>): Promise<void> {
  await runLimited(live.values(), LOOKS_MAX, async ({ log, producers }) => {
    if (log.damage === undefined) {
      log.damage = await producers.end();
      if (log.damage !== undefined) tellDamage(store, log, log.damage);
    }
    // Nobody knows its producers, and nobody asks: a damaged replica leads nothing and takes nothing (D-15).
    if (log.damage !== undefined) log.forgetProducers();
  });
}

/** The image without the segments that the journal's LOG_START or TRUNCATE gave up: their files may be gone already. */
function imageToOpen(history: LogHistory): LogImage {
  const { image } = history;
  if (image === undefined) return emptyLogImage(toLogId(history.logId), history.spec, history.createdAt);
  if (history.damage !== undefined) return image;
  const cutTo = history.lowestCut?.to ?? Number.POSITIVE_INFINITY;
  const segments = image.segments.filter((segment, place) => {
    const end = image.segments[place + 1]?.base ?? image.endOffset;
    return Math.min(end, cutTo) > history.startOffset && segment.base < cutTo;
  });
  return { ...image, segments };
}

/** Why the files of a log are not what the image says; undefined when they are. */
async function filesFault(
  store: LogStoreImpl,
  options: { history: LogHistory; log: ReplicaLogImpl; image: LogImage },
): Promise<Damage | undefined> {
  const { history, log, image } = options;
  const { directory } = log.segments;
  const metadata = await readPartitionMetadata(store.deps, directory);
  if (metadata !== undefined) store.useLogId(metadata.logId);
  if (metadata?.logId !== log.logId)
    return { reason: `${directory} does not hold log ${log.logId}`, fromOffset: undefined };
  const cutTo = history.lowestCut?.to ?? Number.POSITIVE_INFINITY;
  for (const [place, segment] of log.segments.all.entries()) {
    const path = segment.path + LOG_SUFFIX;
    const size = await sizeOf(store, path);
    if (size === undefined) return { reason: `${path} is missing`, fromOffset: toOffset(segment.base) };
    const isLast = place === log.segments.all.length - 1;
    // The file that a TRUNCATE cut may be short already, and have been written over.
    if (isLast && cutTo < image.endOffset) continue;
    if (size < segment.sizeBytes)
      return { reason: `${path} has ${size} bytes, not ${segment.sizeBytes}`, fromOffset: toOffset(segment.base) };
    if (isLast && size > segment.sizeBytes)
      await store.handles.use(path, "write", (handle) => handle.truncate(segment.sizeBytes));
  }
  if (cutTo < image.endOffset) return undefined;
  const reason = await log.segments.verifyTail();
  return reason === undefined ? undefined : { reason, fromOffset: toOffset(log.segments.all.at(-1)?.base ?? 0) };
}

async function sizeOf(store: LogStoreImpl, path: string): Promise<number | undefined> {
  try {
    return await store.handles.use(path, "write", (handle) => handle.size());
  } catch (thrown) {
    if (isNotFound(thrown)) return undefined;
    throw thrown;
  }
}

/** Replays the records of the chain into the logs that are whole. */
async function apply(store: LogStoreImpl, survey: Survey, live: ReadonlyMap<number, LiveLog>): Promise<void> {
  const find = resolver(live, survey.histories);
  const dirty = new Set<ReplicaLogImpl>();
  let pinnedBytes = 0;
  const flushAll = async (): Promise<void> => {
    await runLimited(dirty, LOOKS_MAX, async (log) => {
      await orDamage(log, log.flush());
      // Views of the journal's read buffers: a small one would keep all of its buffer.
      log.held.evictThrough(log.endOffset);
    });
    dirty.clear();
    pinnedBytes = 0;
  };
  if ([...live.values()].some(({ history }) => history.lowestCut !== undefined))
    await rewriteJournals(survey.files, datasync);
  for (const file of survey.files) {
    await readJournal(file.handle, {
      header: file.header,
      checksum: store.checksum,
      visit: async (record) => {
        if (record.kind === KIND.HIGH_WATERMARKS) return applyHighWatermarks(find, record);
        const found = find(record.logId);
        if (found === undefined || found.log.damage !== undefined) return;
        await orDamage(found.log, applyRecord(found, record));
        dirty.add(found.log);
        pinnedBytes += record.body.length;
        if (pinnedBytes >= FLUSH_BYTES) await flushAll();
      },
    });
  }
  await flushAll();
}

/** A page of a log that the disk does not give is no reason to refuse the others (D8). */
async function orDamage(log: ReplicaLogImpl, work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (thrown) {
    if (!isUnreadable(thrown)) throw thrown;
    log.markUnflushable(thrown);
  }
}

async function applyRecord({ history, log, producers }: LiveLog, record: JournalRecord): Promise<void> {
  const epochs = log.epochs as EpochEntry[];
  const { lowestCut } = history;
  const isBeforeCut = lowestCut !== undefined && record.sequence < lowestCut.sequence;
  switch (record.kind) {
    case KIND.APPEND:
      if ((record.flags & FLAG_OPENS_EPOCH) !== 0 || record.epoch > lastEpoch(epochs))
        openEpoch(epochs, record.epoch, record.base);
      if (isBeforeCut) break;
      log.replayAppend(record.body, record);
      producers.append(record.body);
      break;
    case KIND.TRUNCATE:
      log.mark.replayCut(record.base, epochs);
      if (isBeforeCut) truncateEpochs(epochs, record.base);
      else {
        producers.cut(record.base);
        await log.replayTruncate(record.base, decodeChain(record.body));
      }
      break;
    case KIND.EPOCH:
      openEpoch(epochs, record.epoch, record.base);
      break;
    case KIND.LOG_START:
      raiseEpochsStart(epochs, record.base);
      log.startOffset = toOffset(Math.max(log.startOffset, record.base));
      break;
    default:
      return;
  }
  log.isEpochsDirty = true;
}

function applyHighWatermarks(find: (logId: number) => LiveLog | undefined, record: JournalRecord): void {
  for (const row of rowsOf(record.body)) {
    const found = find(row.logId);
    found?.log.mark.replay(row);
    found?.producers.settle(row.offset);
  }
}

/** Journals whose records were not all used are kept: they may be all that is left of something. */
function evidenceOf(image: Image, survey: Survey, live: ReadonlyMap<number, LiveLog>): Image["evidence"] {
  const isWasted =
    survey.damage !== undefined ||
    [...live.values()].some(({ log, history }) => log.damage !== undefined && history.hasRecords);
  const from = image.evidence?.from ?? image.generation;
  if (isWasted) return { from, to: survey.newestGeneration };
  return image.evidence;
}

async function newestGeneration(store: LogStoreImpl): Promise<number> {
  let newest = 0;
  for (const entry of await store.deps.files.list(join(store.config.directory, JOURNAL_DIR))) {
    newest = Math.max(newest, generationOf(entry.name.replace(/\.damaged$/, ""), "journal") ?? 0);
  }
  return newest;
}

/** The checkpoint that ends recovery, and the first one of a new directory. */
export async function commitState(
  store: LogStoreImpl,
  options: {
    readonly superblock: Superblock;
    readonly generation: number;
    readonly evidence: Image["evidence"];
    readonly commit: (next: Superblock) => Promise<void>;
  },
): Promise<JournalFile> {
  const { superblock, generation, evidence } = options;
  const root = store.config.directory;
  const logs = [...store.logs];
  if (!mutant("D-13")) await syncLogs(store.checkpointDeps, logs, { isAlone: true });
  const journalFile = await createJournalFile(store.deps, {
    root,
    generation,
    directoryId: superblock.directoryId,
    ended: undefined,
  });
  return orClose(journalFile.handle, async () => {
    const { nextLogId } = store;
    const images = logs.map((log) => log.image());
    await writeImage(store.checkpointDeps, { generation, nextLogId, evidence, logs: images });
    await syncDirectory(store.deps.files, root);
    failpoint("recovery-image-written");
    await options.commit({ ...superblock, generation, nextLogId, counter: superblock.counter + 1 });
    return journalFile;
  });
}

/** Removes what nobody speaks of any more: directories of deleted logs, segment files that are in no log. */
async function tidy(store: LogStoreImpl, survey: Survey): Promise<void> {
  const root = store.config.directory;
  const { files } = store.deps;
  for (const history of survey.histories.values()) {
    if (!history.isDeleted) continue;
    const metadata = await readPartitionMetadata(
      store.deps,
      join(root, partitionDirectory(history.spec.topic, history.spec.partition)),
    );
    if (metadata?.logId === history.logId) await removeLogDirectory(files, { root, log: metadata });
  }
  for (const entry of await files.list(root)) {
    if (entry.kind === "directory" && isDeletedDirectory(entry.name)) await removeTree(files, join(root, entry.name));
  }
  const whole = [...store.logs].filter((log) => log.damage === undefined);
  await runLimited(whole, LOOKS_MAX, (log) => removeStrays(store, log));
}

async function removeStrays(store: LogStoreImpl, log: ReplicaLogImpl): Promise<void> {
  const { directory, all } = log.segments;
  const bases = new Set(all.map((segment) => segment.base));
  for (const entry of await store.deps.files.list(directory)) {
    const base = baseOffsetOf(entry.name)?.base;
    const producersEnd = producersEndOf(entry.name) ?? producersEndOf(entry.name, SNAPSHOT_SUFFIX);
    const isStray = base === undefined ? producersEnd !== undefined || isCleanedName(entry.name) : !bases.has(base);
    if (!isStray || (producersEnd !== undefined && log.images.ends.includes(producersEnd))) continue;
    await store.handles.forget(join(directory, entry.name));
    await unlinkIfThere(store.deps.files, join(directory, entry.name));
  }
}
