// When leadership of a partition changed, as far as a run of real processes can tell: the leader epoch is looked at while all is well, before and after
// each fault. In a stretch in which it changed, somebody may have led beside somebody else at any time; that is what excuses a loss with acks=1.
import type { HistoryEvent, LeadershipChanged } from "../checkers/history.ts";
import type { ChaosCluster } from "./cluster-types.ts";
import { machineMs } from "./machine-clock.ts";

interface Stretch {
  readonly fromMs: number;
  untilMs: number;
}

interface Look {
  readonly askedMs: number;
  readonly epochs: ReadonlyMap<string, number>;
}

export class EpochWatch {
  readonly #cluster: ChaosCluster;
  readonly #changes = new Map<string, Stretch[]>();
  #last: Look | undefined;

  constructor(cluster: ChaosCluster) {
    this.#cluster = cluster;
  }

  /** Looks now; what changed since the last look is noted. */
  async look(topics: readonly string[]): Promise<void> {
    if (topics.length === 0) return;
    const askedMs = machineMs();
    const view = await (await this.#cluster.client()).admin().describeMetadata({ topics });
    const epochs = new Map<string, number>();
    for (const { name, partitions } of view.topics)
      for (const { index, leaderEpoch } of partitions) epochs.set(`${name}/${index}`, leaderEpoch);
    const last = this.#last;
    this.#last = { askedMs, epochs };
    if (last === undefined) return;
    const untilMs = machineMs();
    for (const [place, epoch] of epochs)
      if (epoch !== last.epochs.get(place)) this.#note(place, { fromMs: last.askedMs, untilMs });
  }

  #note(place: string, stretch: Stretch): void {
    const stretches = this.#changes.get(place) ?? [];
    this.#changes.set(place, stretches);
    const before = stretches.at(-1);
    if (before !== undefined && before.untilMs >= stretch.fromMs) before.untilMs = stretch.untilMs;
    else stretches.push(stretch);
  }

  /** In the order of their time. */
  events(): readonly HistoryEvent[] {
    const events: LeadershipChanged[] = [];
    for (const [place, stretches] of this.#changes) {
      const cut = place.lastIndexOf("/");
      const of = { topic: place.slice(0, cut), partition: Number(place.slice(cut + 1)) };
      for (const { fromMs, untilMs } of stretches)
        events.push(
          { type: "leadership", timeMs: fromMs, ...of, leaders: 2 },
          { type: "leadership", timeMs: untilMs, ...of, leaders: 1 },
        );
    }
    return events.sort((one, other) => one.timeMs - other.timeMs);
  }
}
