// Tells the log which partitions have been waited for for a while, those of one cause in one line, and when a topic's all go on.
import type { Logger } from "../ports/logger.ts";
import type { Alarm, Alarms } from "../link/alarms.ts";

interface Wait {
  readonly topic: string;
  readonly partition: number;
  readonly sinceMs: number;
  reason: string;
  isTold: boolean;
}

/** Shorter waits are no news: a broker's restart, a leadership that moves. */
const TELL_AFTER_MS = 2_000;
/** Those that began a little later are told along. */
const TELL_ALONG_MS = 1_000;

export class WaitNotes {
  readonly #alarms: Alarms;
  readonly #logger: Logger;
  /** At most one per partition that is read or written. */
  readonly #waits = new Map<string, Wait>();
  /** Partitions that were told of and go on, by topic, until all of the topic do. */
  readonly #back = new Map<string, number[]>();
  #alarm: Alarm | undefined;
  #isClosed = false;

  constructor({ alarms, logger }: { readonly alarms: Alarms; readonly logger: Logger }) {
    this.#alarms = alarms;
    this.#logger = logger;
  }

  waits(topic: string, partition: number, reason: string): void {
    if (this.#isClosed) return;
    const key = keyOf(topic, partition);
    const known = this.#waits.get(key);
    if (known !== undefined) {
      known.reason = reason;
      return;
    }
    this.#waits.set(key, { topic, partition, sinceMs: this.#alarms.nowMs(), reason, isTold: false });
    this.#alarm ??= this.#alarms.after(TELL_AFTER_MS, () => this.#tell());
  }

  goesOn(topic: string, partition: number): void {
    if (this.#waits.size === 0) return;
    const wait = this.#waits.get(keyOf(topic, partition));
    if (wait === undefined) return;
    this.#waits.delete(keyOf(topic, partition));
    if (!wait.isTold) return;
    const back = this.#back.get(topic) ?? [];
    back.push(partition);
    this.#back.set(topic, back);
    for (const other of this.#waits.values()) if (other.isTold && other.topic === topic) return;
    this.#back.delete(topic);
    this.#logger.info("partitions_go_on", { topic, partitions: inOrder(back) });
  }

  /** Nobody waits for it any more. */
  forget(topic: string, partition: number): void {
    this.#waits.delete(keyOf(topic, partition));
  }

  close(): void {
    this.#isClosed = true;
    this.#alarm?.cancel();
    this.#waits.clear();
  }

  #tell(): void {
    this.#alarm = undefined;
    const nowMs = this.#alarms.nowMs();
    const groups = new Map<string, Wait[]>();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const wait of this.#waits.values()) {
      if (wait.isTold) continue;
      if (nowMs - wait.sinceMs < TELL_ALONG_MS) {
        nextMs = Math.min(nextMs, wait.sinceMs + TELL_AFTER_MS - nowMs);
        continue;
      }
      wait.isTold = true;
      const key = `${wait.topic} ${wait.reason}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [wait]);
      else group.push(wait);
    }
    for (const group of groups.values()) {
      const { topic, reason } = group[0] as Wait;
      const partitions = inOrder(group.map(({ partition }) => partition));
      this.#logger.warn("partitions_wait", { topic, partitions, reason });
    }
    if (nextMs < Number.POSITIVE_INFINITY) this.#alarm = this.#alarms.after(nextMs, () => this.#tell());
  }
}

const keyOf = (topic: string, partition: number): string => `${topic}-${partition}`;
const inOrder = (partitions: readonly number[]): number[] => partitions.toSorted((left, right) => left - right);
