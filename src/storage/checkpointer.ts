// Checkpoints of a running store: end the journal, bring the segments to exactly that point, sync, image, superblock, and only then
// drop what is old (D-12). Appends go on all the while.
import { failpoint } from "../base/failpoint.ts";
import { assert } from "../base/assert.ts";
import { mutant } from "../base/mutant.ts";
import type { FileHandle } from "../ports/files.ts";
import type { TimerHandle } from "../ports/timers.ts";
import {
  type CheckpointDeps,
  removeOld,
  removeOldJournals,
  syncLogs,
  syncsAtOnce,
  writeEpochFiles,
  writeImage,
} from "./checkpoint-files.ts";
import { isNoSpace } from "./faults.ts";
import type { Image, LogCapture, LogImage } from "./image.ts";
import type { Journal } from "./journal.ts";
import { createJournalFile } from "./journal-file.ts";
import { captureProducers, removeStaleProducers, writeProducerImages } from "./producer-images.ts";
import type { ReplicaLogImpl } from "./replica-log.ts";
import { type Superblock, writeSuperblock } from "./superblock.ts";
import type { StorageDeps } from "./types.ts";

/** What a checkpoint needs of its store. */
export interface CheckpointHost {
  readonly deps: StorageDeps;
  readonly checkpointDeps: CheckpointDeps;
  readonly journal: Journal;
  readonly logs: Iterable<ReplicaLogImpl>;
  readonly nextLogId: number;
  /** False once the store has failed or is being closed: no checkpoint starts by itself. */
  readonly isRunning: boolean;
  /** Rejects when nothing more can be written. */
  readonly stopped: Promise<never>;
  requestFlush(log: ReplicaLogImpl): void;
  giveUpReserve(): Promise<boolean>;
  onCheckpointFailed(thrown: unknown): void;
}

export type SuperblockChange = Partial<Pick<Superblock, "generation" | "isClean" | "clusterId" | "brokerEpoch">>;

export class Checkpointer {
  readonly #host: CheckpointHost;
  readonly #superblockFile: FileHandle;
  readonly #intervalMs: number;
  #superblock: Superblock;
  #journalGeneration: number;
  #running: Promise<void> | undefined;
  #lastWrite: Promise<void> = Promise.resolve();
  #timer: TimerHandle | undefined;
  /** Something waits for the next checkpoint. */
  #isWanted = false;
  #isWantedNow = false;
  /** Pending while a snapshot is taken: truncations, epochs, log starts, creations and deletions wait for it. */
  gate: Promise<void> | undefined;

  constructor(
    host: CheckpointHost,
    options: { readonly superblock: Superblock; readonly superblockFile: FileHandle; readonly intervalMs: number },
  ) {
    this.#host = host;
    this.#superblock = options.superblock;
    this.#superblockFile = options.superblockFile;
    this.#intervalMs = options.intervalMs;
    this.#journalGeneration = options.superblock.generation;
    this.#arm();
  }

  get superblock(): Superblock {
    return this.#superblock;
  }

  /** Resolves when no checkpoint is under way. */
  get idle(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  #arm(): void {
    this.#timer?.cancel();
    if (!this.#host.isRunning) return;
    this.#timer = this.#host.deps.timers.after(this.#intervalMs, () => {
      if (this.#host.journal.hasRecords || this.#isWanted) this.start();
      else this.#arm();
    });
  }

  /** Also when nothing is written; `now`: before the interval is over. */
  want(now: boolean): void {
    this.#isWanted = true;
    this.#isWantedNow ||= now;
    if (now) this.start();
  }

  start(): void {
    if (this.#running === undefined && this.#host.isRunning) void this.run();
  }

  /** Runs a checkpoint, or joins the one under way. Never rejects: the host is told of a failure. */
  run(): Promise<void> {
    this.#running ??= this.#run()
      .catch((thrown: unknown) => {
        // Its journal has ended: with nothing in the next one nobody else would ask for what it did not do.
        this.#isWanted = true;
        this.#host.onCheckpointFailed(thrown);
      })
      .finally(() => {
        this.#running = undefined;
        this.#arm();
        if (this.#isWantedNow) this.start();
      });
    return this.#running;
  }

  /** The last checkpoint, then the clean marker. No other may be under way. */
  async close(): Promise<void> {
    assert(this.#running === undefined, "a checkpoint is under way");
    this.#timer?.cancel();
    await this.#run();
    await this.update({ isClean: true });
  }

  async #run(): Promise<void> {
    const host = this.#host;
    const generation = this.#journalGeneration + 1;
    const before = [...host.logs];
    await captureProducers(before, host.deps.timers);
    // In the turn in which the gate closes: a log that was made since the look before would be in neither this image nor the next journal.
    const logs = mutant("D-12c") ? before : [...host.logs];
    this.#isWanted = false;
    this.#isWantedNow = false;
    const captures = await this.#seal(logs, generation);
    failpoint("checkpoint-sealed");
    if (mutant("M19c")) await removeOldJournals(host.checkpointDeps, { generation, evidence: undefined });
    for (const log of logs) host.requestFlush(log);
    const states = await Promise.race([Promise.all(captures), host.stopped]);
    const image = await this.#writeImage(logs, states, generation).catch((thrown: unknown) => {
      for (const log of logs) log.onCheckpointPutOff();
      throw thrown;
    });
    failpoint("checkpoint-image-written");
    const swap = (): Promise<void> => swapReplaced(host, logs);
    if (mutant("S-41")) await swap();
    await this.update({ generation });
    failpoint("checkpoint-committed");
    await swap();
    failpoint("checkpoint-swapped");
    await removeOld(host.checkpointDeps, image);
    await removeStaleProducers(host.checkpointDeps, logs);
  }

  async #writeImage(
    logs: readonly ReplicaLogImpl[],
    states: readonly (LogCapture | undefined)[],
    generation: number,
  ): Promise<Image> {
    const host = this.#host;
    const { nextLogId } = host;
    const isAlone = !host.isRunning;
    await this.#withReserve(async () => {
      await syncLogs(host.checkpointDeps, logs, { isAlone });
      await writeEpochFiles(host.checkpointDeps, logs, { isAlone });
    });
    failpoint("checkpoint-segments-synced");
    await writeProducerImages(host.checkpointDeps, logs, syncsAtOnce(isAlone));
    const images = logs.flatMap((log, place) => imageOf(log, states[place]));
    const image = { generation, nextLogId, evidence: undefined, logs: images };
    await this.#withReserve(() => writeImage(host.checkpointDeps, image));
    return image;
  }

  /** Ends the present journal. The captures speak of exactly what is before its SEAL. */
  async #seal(logs: readonly ReplicaLogImpl[], generation: number): Promise<Promise<LogCapture | undefined>[]> {
    let open: () => void = () => undefined;
    this.gate = new Promise((resolve) => {
      open = resolve;
    });
    const { directory } = this.#host.checkpointDeps;
    const { directoryId } = this.#superblock;
    try {
      const captures = logs.map((log) => log.capture());
      await this.#host.journal.rotate((ended) =>
        createJournalFile(this.#host.deps, { root: directory, generation, directoryId, ended }),
      );
      this.#journalGeneration = generation;
      return captures;
    } finally {
      this.gate = undefined;
      open();
    }
  }

  async #withReserve(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      if (!isNoSpace(thrown) || !(await this.#host.giveUpReserve())) throw thrown;
      await work();
    }
  }

  /** Makes the change durable, behind those that were asked for before. */
  update(change: SuperblockChange): Promise<void> {
    const written = this.#lastWrite.then(() => this.#writeSuperblock(change));
    this.#lastWrite = written.catch(() => undefined);
    return written;
  }

  async #writeSuperblock(change: SuperblockChange): Promise<void> {
    const next: Superblock = {
      ...this.#superblock,
      ...change,
      nextLogId: this.#host.nextLogId,
      counter: this.#superblock.counter + 1,
    };
    this.#superblock = await writeSuperblock(this.#superblockFile, next, this.#host.deps.checksum);
  }
}

/** Files that the image names take the place of segments, log by log. */
async function swapReplaced(host: CheckpointHost, logs: readonly ReplicaLogImpl[]): Promise<void> {
  const { files, timers } = host.deps;
  const deps = { files, timers, isRunning: () => host.isRunning };
  for (const log of logs) {
    const swapped = log.onCheckpoint(deps);
    if (swapped !== undefined) await swapped;
  }
}

/** The image of a log that still exists. */
function imageOf(log: ReplicaLogImpl, state: LogCapture | undefined): LogImage[] {
  if (state?.layout === undefined) return [];
  const { logId, spec } = log;
  // The file that this checkpoint puts in its place has ended it.
  const damage = log.replacements?.repaired === log.damage ? undefined : log.damage;
  return [{ logId, spec, ...state, segments: state.layout, producerImages: log.images.ends, damage }];
}
