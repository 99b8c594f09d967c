// Watches how the logs of all replicas lose what they lose (invariant 20): one LogLife per partition, shown each replica at each step of its core.
import type { Replica } from "../../broker/replica.ts";
import type { TopicImage } from "../../metadata/image.ts";
import { CLEANUP } from "../../model/config-values.ts";
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { Codecs } from "../../ports/codecs.ts";
import { join, LOG_SUFFIX, offsetName, partitionDirectory } from "../../storage/paths.ts";
import type { PartitionName } from "../../checkers/history.ts";
import type { DiskImage } from "../disk-image.ts";
import type { SimWorld } from "../world.ts";
import { type LifeLook, LogLife } from "./log-life.ts";
import { RecordTruth } from "./record-truth.ts";

export interface LifeParts {
  readonly codecs: Codecs;
  readonly imageOf: (node: NodeId) => DiskImage;
  /** No node's wall clock is wrong in this run. */
  readonly hasTrueClocks: boolean;
}

/** Where a replica is, and what may be looked at of it. */
export interface LifeStep {
  readonly node: NodeId;
  readonly replica: Replica;
  /** The segments are looked at, too. */
  readonly isClose: boolean;
  /** Damage of it was planted. */
  readonly isSpoilt: boolean;
  readonly isCommitted: LifeLook["isCommitted"];
  readonly broken: (message: string) => never;
}

const DATA = "data";

export class LifeWatch {
  readonly #world: SimWorld;
  readonly #parts: LifeParts;
  readonly #lives = new Map<string, LogLife>();
  /** By node and partition: the newest. */
  readonly #replicas = new Map<string, { readonly life: LogLife; readonly replica: Replica }>();

  constructor(world: SimWorld, parts: LifeParts) {
    this.#world = world;
    this.#parts = parts;
  }

  begin(key: string, topic: TopicImage): void {
    const { checksum } = this.#world;
    const isCompacted = ((topic.configs["cleanup.policy"] ?? 0) & CLEANUP.COMPACT) !== 0;
    const records = isCompacted ? new RecordTruth({ checksum, codecs: this.#parts.codecs }) : undefined;
    this.#lives.set(key, new LogLife(records, (mark) => this.#world.sometimes(mark)));
  }

  end(key: string): void {
    this.#lives.delete(key);
  }

  /** Its records may go one by one. */
  recordsOf(key: string): RecordTruth | undefined {
    return this.#lives.get(key)?.records;
  }

  /** Somebody is about to ask that what lies below goes. */
  mayTrim(topicId: TopicId, partition: number, toOffset: number): void {
    this.#lives.get(keyOf(topicId, partition))?.mayTrim(toOffset);
  }

  /** Its leader writes there what whoever begins there must know of producers. */
  tells(key: string, offset: number): void {
    this.#lives.get(key)?.tells(offset);
  }

  /** A closed segment with records that count. */
  hasClosedSegment(node: NodeId, partition: PartitionName, base: number): boolean {
    const found = this.#replicas.get(`${node} ${partition}`);
    return found !== undefined && found.replica.log.damage === undefined
      ? found.life.hasClosedSegment(found.replica.log, base)
      : found !== undefined;
  }

  step(key: string, name: PartitionName, { node, replica, isClose, isSpoilt, isCommitted, broken }: LifeStep): void {
    const life = this.#lives.get(key);
    if (life === undefined) return;
    const { log, core, limits: settings } = replica;
    const { startOffset, highWatermark, isLeader } = core;
    if (!isClose && life.hasSeen(log, startOffset)) return;
    this.#replicas.set(`${node} ${name}`, { life, replica });
    const { nowMs, startWallMs } = this.#world;
    const trueMs = this.#parts.hasTrueClocks ? startWallMs + nowMs : undefined;
    const bytesOf = (base: number): Uint8Array | undefined =>
      isSpoilt ? undefined : this.#bytesOf(node, replica, base);
    const standing = { log, startOffset, highWatermark, isLeader, settings, nowMs, trueMs };
    life.look({ ...standing, isCommitted, bytesOf }, { isClose }, broken);
  }

  #bytesOf(node: NodeId, { log }: Replica, base: number): Uint8Array | undefined {
    const directory = join(DATA, partitionDirectory(log.topic, log.partition));
    const file = this.#parts.imageOf(node).find(join(directory, offsetName(base) + LOG_SUFFIX));
    return file?.kind === "file" ? file.live.view : undefined;
  }
}

/** Of a partition, over all names. */
export function keyOf(topicId: TopicId, partition: number): string {
  return `${topicId} ${partition}`;
}
