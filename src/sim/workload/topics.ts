// The topics of a run: what clients may use now. A name is used once, so that what is read can be told from an earlier topic's.
export interface TopicPlan {
  readonly name: string;
  readonly partitions: number;
  /** Records may go one by one: each has a key. */
  readonly isCompacted?: boolean;
}

export const TOPIC_PREFIX = "topic.";

export class TopicBoard {
  readonly #live = new Map<string, TopicPlan>();
  readonly #compacted = new Set<string>();
  #created = 0;

  get live(): readonly TopicPlan[] {
    return [...this.#live.values()];
  }

  nextName(): string {
    return `${TOPIC_PREFIX}${++this.#created}`;
  }

  add(topic: TopicPlan): void {
    this.#live.set(topic.name, topic);
    if (topic.isCompacted === true) this.#compacted.add(topic.name);
  }

  remove(name: string): void {
    this.#live.delete(name);
  }

  has(name: string): boolean {
    return this.#live.has(name);
  }

  /** Also of one that is not live any more. */
  isCompacted(name: string): boolean {
    return this.#compacted.has(name);
  }
}
