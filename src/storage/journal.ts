// The journal's writer: group commit for all logs of the store (D-12).
//
// One write is in flight at a time; what is queued meanwhile forms the next group. One fdatasync is in flight at a time beside
// it and credits only the groups whose write had returned before it was issued. Effects of a log come strictly in order (D-34).
// A file ends with a SEAL; the next file gets its header only after the old one is wholly synced, so a valid header proves that.
import { failpoint } from "../base/failpoint.ts";
import { assert } from "../base/assert.ts";
import { EMPTY_BYTES, utf8Encode } from "../base/bytes.ts";
import { mutant } from "../base/mutant.ts";
import { Ring } from "../base/ring.ts";
import type { OttlaError } from "../model/errors.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { FileHandle } from "../ports/files.ts";
import type { Timers, TimerHandle } from "../ports/timers.ts";
import { diskFailed, isNoSpace, isPassing, RETRY_AFTER_MS, storageFull } from "./faults.ts";
import type { RisenHighWatermarks, RisingLog } from "./high-watermark.ts";
import type { Damage, EpochEntry } from "./types.ts";
import { type ChainPlace, encodeRecordHeader, KIND, RECORD_HEADER_BYTES } from "./journal-record.ts";

/** Larger groups are fewer writes and syncs for a burst of many logs; of those that are smaller one is written while the one before is synced. */
const GROUP_BYTES_MAX = 2 * 1024 * 1024;
/** Two chunks a record, and one record of high watermarks; below the 1,024 that one writev takes. */
const GROUP_RECORDS_MAX = 500;
/** Idle for this long: a MARK tells what is synced (D-11 asks for 50 ms), and takes high watermarks along. */
const MARK_AFTER_MS = 25;

/** What the journal knows of a log. */
export interface JournalLog {
  readonly truncations: number;
  /** The newest credit of this log, to find again when the same group holds more records of it. */
  credit: Credit | undefined;
}

export interface Waiter {
  resolve(): void;
  reject(error: OttlaError): void;
}

export interface JournalEntry {
  readonly kind: number;
  readonly flags: number;
  readonly logId: number;
  base: number;
  last: number;
  readonly epoch: number;
  readonly body: Uint8Array;
  readonly log: JournalLog | undefined;
  /** The log's truncations when the record was accepted: a credit of an older count is void (D-34). */
  readonly truncations: number;
  /** Where the log ends after this record. */
  endOffset: number;
  /** The epochs before an APPEND that opened one, for when it is refused. */
  readonly undoEpochs: readonly EpochEntry[] | undefined;
  /** Told when the record is durable, or never will be. */
  readonly waiter: Waiter | undefined;
}

/** Per log and group: everything below `endOffset` is in the group or before it. */
export interface Credit {
  readonly log: JournalLog;
  readonly truncations: number;
  readonly group: Group;
  endOffset: number;
}

interface Group {
  readonly entries: JournalEntry[];
  readonly credits: Credit[];
  sizeBytes: number;
  endPosition: number;
}

export interface JournalHost {
  onWritten(credit: Credit): void;
  onDurable(credit: Credit): void;
  /**
   * All of these were not written and nothing else is queued; gives back the ones that must be tried again. `gaveUpReserve`: there may be
   * room for them now.
   */
  refuse(entries: Iterable<JournalEntry>, gaveUpReserve: boolean): JournalEntry[];
  /** What cannot be written now never will. */
  readonly isClosing: boolean;
  /** Gives up the reserve; false when there was none. */
  giveUpReserve(): Promise<boolean>;
  onJournalFailed(error: OttlaError): void;
  onGroupWritten(sizeBytes: number): void;
  /** The next file cannot be made for now, and nothing is written before it is there. Told once a rotation. */
  onNextPutOff(thrown: unknown): void;
  /** A sync has ended well. */
  onSynced(durationMs: number): void;
}

/** An open journal file and the place of its next record. */
export interface JournalFile {
  readonly handle: FileHandle;
  readonly place: ChainPlace;
  position: number;
}

interface Rotation {
  /** Prepares the file of the next generation, given how this one ended. */
  readonly open: (ended: JournalFile) => Promise<JournalFile>;
  /** The new file, once it takes records. */
  readonly done: (file: JournalFile) => void;
  readonly failed: (error: OttlaError) => void;
}

export class Journal {
  readonly #host: JournalHost;
  readonly #checksum: Checksum;
  readonly #timers: Timers;
  readonly #clock: Clock;
  readonly #queue = new Ring<JournalEntry>();
  readonly #risen: RisenHighWatermarks;
  /** Headers of the group being written; used again when its write has settled. */
  readonly #headers = new Uint8Array((GROUP_RECORDS_MAX + 1) * RECORD_HEADER_BYTES);
  #file: JournalFile;
  #unsynced: Group[] = [];
  #isPumping = false;
  #isSyncing = false;
  #rotation: Rotation | undefined;
  #markTimer: TimerHandle | undefined;
  #hasUnmarked = false;
  #hasRecords = false;
  #isClosed = false;
  #failure: OttlaError | undefined;
  #idleWaiters: (() => void)[] = [];

  constructor(
    file: JournalFile,
    deps: { host: JournalHost; checksum: Checksum; timers: Timers; clock: Clock; risen: RisenHighWatermarks },
  ) {
    this.#file = file;
    this.#risen = deps.risen;
    this.#host = deps.host;
    this.#checksum = deps.checksum;
    this.#timers = deps.timers;
    this.#clock = deps.clock;
  }

  get failure(): OttlaError | undefined {
    return this.#failure;
  }

  /** Bytes of the present file. */
  get sizeBytes(): number {
    return this.#file.position;
  }

  /** The present file holds more than its header and marks. */
  get hasRecords(): boolean {
    return this.#hasRecords;
  }

  push(entry: JournalEntry): void {
    this.#queue.push(entry);
    if (!this.#isPumping) this.#startPump();
  }

  /** The log's high watermark rose: that goes with the next group, or with the next mark. */
  highWatermarkRose(log: RisingLog): void {
    this.#risen.add(log);
    if (this.#markTimer === undefined) this.#armMark();
  }

  /** Seals the present file behind everything queued and goes on in a new one. Resolves when the old one is wholly durable. */
  rotate(open: Rotation["open"]): Promise<JournalFile> {
    assert(this.#rotation === undefined, "the journal is rotating already");
    return new Promise((resolve, reject) => {
      const failed = (error: OttlaError): void => {
        this.#rotation = undefined;
        reject(error);
      };
      this.#rotation = { open, done: resolve, failed };
      // The SEAL being durable is not the end: the next file must be there.
      this.push(controlEntry(KIND.SEAL, { resolve: () => undefined, reject: failed }));
    });
  }

  /** Resolves when everything pushed so far is durable, or the journal has failed. */
  async settled(): Promise<void> {
    while (!this.#isIdle) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelMark();
    await this.settled();
    await this.#file.handle.close();
  }

  get #isIdle(): boolean {
    return (
      !this.#isPumping &&
      !this.#isSyncing &&
      ((this.#queue.length === 0 && this.#unsynced.length === 0) || this.#failure !== undefined)
    );
  }

  #startPump(): void {
    if (this.#failure !== undefined) return this.#rejectAll(this.#failure);
    this.#isPumping = true;
    this.#cancelMark();
    void this.#pump();
  }

  async #pump(): Promise<void> {
    // One microtask later everything that this event brought is queued and shares the first write.
    await undefined;
    while (this.#queue.length > 0 && this.#failure === undefined) {
      const group = this.#takeGroup();
      const sizeBytes = group.sizeBytes;
      const rollback = { sequence: this.#file.place.sequence, prevCrc: this.#file.place.prevCrc };
      try {
        await this.#file.handle.write(this.#file.position, this.#encode(group));
      } catch (thrown) {
        Object.assign(this.#file.place, rollback);
        if (!(await this.#writeFailed(group, thrown))) break;
        continue;
      }
      if (this.#failure !== undefined) {
        this.#requeue(group.entries);
        break;
      }
      this.#groupWritten(group, sizeBytes);
      if (group.entries.at(-1)?.kind === KIND.SEAL && !(await this.#openNext())) break;
    }
    this.#isPumping = false;
    this.#workEnded();
  }

  #takeGroup(): Group {
    const group: Group = { entries: [], credits: [], sizeBytes: 0, endPosition: 0 };
    for (let next = this.#queue.peek(); next !== undefined; next = this.#queue.peek()) {
      const sizeBytes = RECORD_HEADER_BYTES + next.body.length;
      if (group.entries.length > 0 && group.sizeBytes + sizeBytes > GROUP_BYTES_MAX) break;
      this.#queue.shift();
      group.entries.push(next);
      group.sizeBytes += sizeBytes;
      if (next.kind === KIND.SEAL || group.entries.length === GROUP_RECORDS_MAX) break;
    }
    this.#takeRisen(group);
    group.endPosition = this.#file.position + group.sizeBytes;
    return group;
  }

  /** Not behind the snapshot of a checkpoint: the next file has what rises from there on. */
  #takeRisen(group: Group): void {
    const body = this.#rotation === undefined ? this.#risen.take() : undefined;
    if (body === undefined) return;
    group.entries.push({ ...controlEntry(KIND.HIGH_WATERMARKS, undefined), body });
    group.sizeBytes += RECORD_HEADER_BYTES + body.length;
  }

  #encode(group: Group): Uint8Array[] {
    const chunks: Uint8Array[] = [];
    let at = 0;
    for (const entry of group.entries) {
      encodeRecordHeader(this.#headers, at, { record: entry, place: this.#file.place, checksum: this.#checksum });
      chunks.push(this.#headers.subarray(at, at + RECORD_HEADER_BYTES));
      if (entry.body.length > 0) chunks.push(entry.body);
      at += RECORD_HEADER_BYTES;
    }
    return chunks;
  }

  #groupWritten(group: Group, sizeBytes: number): void {
    failpoint("journal-written");
    this.#file.position = group.endPosition;
    this.#risen.written();
    for (const entry of group.entries) {
      if (entry.kind !== KIND.MARK && entry.kind !== KIND.HIGH_WATERMARKS) {
        this.#hasUnmarked = true;
        this.#hasRecords = true;
      }
      if (entry.log !== undefined) credit(group, entry, entry.log);
    }
    this.#unsynced.push(group);
    for (const each of group.credits) this.#host.onWritten(each);
    if (mutant("M2")) for (const each of group.credits) this.#host.onDurable(each);
    this.#host.onGroupWritten(sizeBytes);
    this.#startSync();
  }

  #startSync(): void {
    if (this.#isSyncing || this.#unsynced.length === 0 || this.#failure !== undefined) return;
    this.#isSyncing = true;
    void this.#sync();
  }

  async #sync(): Promise<void> {
    while (this.#unsynced.length > 0 && this.#failure === undefined) {
      const groups = this.#unsynced;
      this.#unsynced = [];
      const startedMs = this.#clock.monoMs();
      try {
        await this.#datasync();
      } catch (thrown) {
        this.#unsynced = [...groups, ...this.#unsynced];
        this.#fail(diskFailed(thrown));
        break;
      }
      // A write that failed while this sync ran has stopped everything (D-13).
      if (this.#failure !== undefined) {
        this.#unsynced = [...groups, ...this.#unsynced];
        break;
      }
      failpoint("journal-synced");
      if (mutant("D-12")) groups.push(...this.#unsynced.splice(0));
      this.#host.onSynced(this.#clock.monoMs() - startedMs);
      this.#file.place.syncedTo = groups.at(-1)?.endPosition ?? 0;
      for (const group of groups) this.#groupDurable(group);
    }
    this.#isSyncing = false;
    this.#workEnded();
  }

  async #datasync(): Promise<void> {
    const { handle } = this.#file;
    if (!mutant("M20")) return handle.datasync();
    await handle.datasync().catch(() => handle.datasync());
  }

  #groupDurable(group: Group): void {
    for (const each of group.credits) {
      if (each.log.credit === each) each.log.credit = undefined;
      this.#host.onDurable(each);
    }
    for (const entry of group.entries) entry.waiter?.resolve();
  }

  /** The SEAL is written. False: the journal has failed. */
  async #openNext(): Promise<boolean> {
    await this.#allSynced();
    const rotation = this.#rotation;
    if (this.#failure !== undefined || rotation === undefined) return false;
    const ended = this.#file;
    failpoint("journal-sealed");
    let isTold = false;
    for (let attempt = 0; ; attempt++) {
      try {
        this.#file = await rotation.open(ended);
        break;
      } catch (thrown) {
        if (isNoSpace(thrown) && attempt === 0 && (await this.#host.giveUpReserve())) continue;
        if (isPassing(thrown) && !isTold) this.#host.onNextPutOff(thrown);
        isTold = true;
        if (!isPassing(thrown)) this.#fail(diskFailed(thrown));
        else if (this.#host.isClosing) this.#fail(storageFull(thrown));
        else await this.#pause();
        if (this.#failure !== undefined) return false;
      }
    }
    failpoint("journal-created");
    this.#rotation = undefined;
    this.#hasUnmarked = false;
    this.#hasRecords = false;
    rotation.done(this.#file);
    await ended.handle.close().catch(() => undefined);
    return true;
  }

  async #allSynced(): Promise<void> {
    while (this.#failure === undefined && (this.#isSyncing || this.#unsynced.length > 0)) {
      await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => this.#timers.after(RETRY_AFTER_MS, resolve));
  }

  /** ENOSPC: no trace of the group stays, then everything accepted is refused. False: the journal has failed. */
  async #writeFailed(group: Group, thrown: unknown): Promise<boolean> {
    this.#risen.putBack();
    if (!isNoSpace(thrown) || this.#failure !== undefined) {
      this.#requeue(group.entries);
      this.#fail(diskFailed(thrown));
      return false;
    }
    const { handle, position } = this.#file;
    try {
      await handle.truncate(position);
      // Without this sync a power loss could bring the refused records back.
      await handle.datasync();
    } catch (failed) {
      this.#requeue(group.entries);
      this.#fail(diskFailed(failed));
      return false;
    }
    const gaveUp = await this.#host.giveUpReserve();
    this.#requeue(group.entries);
    if (this.#failure !== undefined) return false;
    const entries = [...this.#queue];
    this.#queue.clear();
    for (const kept of this.#host.refuse(entries, gaveUp)) this.#queue.push(kept);
    if (this.#queue.length > 0 && !gaveUp) await this.#pause();
    return true;
  }

  #requeue(entries: readonly JournalEntry[]): void {
    const queued = [...this.#queue];
    this.#queue.clear();
    for (const entry of entries) this.#queue.push(entry);
    for (const entry of queued) this.#queue.push(entry);
  }

  #fail(error: OttlaError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#rotation?.failed(error);
    this.#rejectAll(error);
    this.#host.onJournalFailed(error);
    this.#becameIdle();
  }

  /** Stops the journal for a failure met elsewhere on the disk. */
  stop(error: OttlaError): void {
    this.#fail(error);
  }

  #rejectAll(error: OttlaError): void {
    for (const group of this.#unsynced) for (const entry of group.entries) entry.waiter?.reject(error);
    for (const entry of this.#queue) entry.waiter?.reject(error);
    this.#queue.clear();
    this.#unsynced = [];
  }

  /** Those whose group was under way when the journal failed, wherever it did, were in no queue then. */
  #workEnded(): void {
    if (this.#failure !== undefined) this.#rejectAll(this.#failure);
    this.#becameIdle();
  }

  #becameIdle(): void {
    const waiters = this.#idleWaiters;
    this.#idleWaiters = [];
    for (const resolve of waiters) resolve();
    this.#armMark();
  }

  get #isMarkDue(): boolean {
    const isWanted = this.#hasUnmarked || this.#risen.isFresh;
    return isWanted && this.#isIdle && !this.#isClosed && this.#failure === undefined;
  }

  #armMark(): void {
    if (!this.#isMarkDue) return;
    this.#markTimer?.cancel();
    this.#markTimer = this.#timers.after(MARK_AFTER_MS, () => {
      this.#markTimer = undefined;
      if (!this.#isMarkDue) return;
      this.#hasUnmarked = false;
      this.#risen.isFresh = false;
      this.push(controlEntry(KIND.MARK, undefined));
    });
  }

  #cancelMark(): void {
    this.#markTimer?.cancel();
    this.#markTimer = undefined;
  }
}

function credit(group: Group, entry: JournalEntry, log: JournalLog): void {
  const open = log.credit;
  if (open !== undefined && open.group === group && open.truncations === entry.truncations) {
    open.endOffset = entry.endOffset;
    return;
  }
  log.credit = { log, truncations: entry.truncations, group, endOffset: entry.endOffset };
  group.credits.push(log.credit);
}

/** A record of the store itself, of no log. */
export function controlEntry(kind: number, waiter: Waiter | undefined): JournalEntry {
  return {
    kind,
    flags: 0,
    logId: 0,
    base: 0,
    last: 0,
    epoch: -1,
    body: EMPTY_BYTES,
    log: undefined,
    truncations: 0,
    endOffset: 0,
    undoEpochs: undefined,
    waiter,
  };
}

/** D-17: of a log that stays as it is. */
export function damagedEntry(log: JournalLog & { readonly logId: number }, damage: Damage): JournalEntry {
  const base = damage.fromOffset ?? -1;
  const body = utf8Encode(damage.reason);
  return { ...controlEntry(KIND.DAMAGED, undefined), logId: log.logId, base, last: base, body };
}
