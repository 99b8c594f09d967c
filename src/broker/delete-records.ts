// Records deleted on demand (S-30): the log start of each partition goes up at once, and the request waits until no replica that lives has anything
// below, durably. One request waits on many partitions at once.
import type { Deadline } from "../base/deadlines.ts";
import { mutant } from "../base/mutant.ts";
import { CLEANUP } from "../model/config-values.ts";
import type { ErrorName } from "../model/errors.ts";
import { NO_LEADER_EPOCH } from "../model/ids.ts";
import type { API } from "../wire/native/apis.ts";
import type { DeleteRecordsRequest, DeleteRecordsResponse } from "../wire/native/replication-apis.ts";
import type { ConnectionDependent } from "./connection.ts";
import { raiseLogStart } from "./log-starts.ts";
import { lookUpPartition } from "./partition-lookup.ts";
import type { LogStartWaiter, Replica } from "./replica.ts";
import type { Request } from "./request.ts";
import type { Services } from "./services.ts";

type Row = DeleteRecordsRequest["entries"][number];
type Answer = DeleteRecordsResponse["entries"][number];

/** Everything that is committed. */
const ALL = -1;

interface Goal {
  readonly index: number;
  readonly replica: Replica;
  readonly toOffset: number;
  readonly leaderEpoch: number;
}

export class DeleteRecordsOperation implements LogStartWaiter, ConnectionDependent {
  readonly #services: Services;
  readonly #request: Request<typeof API.DELETE_RECORDS>;
  readonly #answers: (Answer | undefined)[];
  readonly #goals = new Set<Goal>();
  readonly #watched = new Set<Replica>();
  #deadline: Deadline | undefined;

  constructor(services: Services, request: Request<typeof API.DELETE_RECORDS>) {
    this.#services = services;
    this.#request = request;
    this.#answers = request.body.entries.map((row, index) => this.#begin(row, index));
  }

  start(): void {
    const { accountant, deadlines, config } = this.#services;
    for (const goal of this.#goals) this.#look(goal);
    if (this.#goals.size === 0) return this.#respond();
    if (!accountant.tryDelay()) return this.#request.fail("BUSY", "too many requests wait already");
    const waitMs = this.#request.waitBudgetMs(config["request.timeout.ms"], this.#request.body.timeoutMs);
    this.#deadline = deadlines.add(waitMs, () => this.#expire());
    for (const { replica } of this.#goals) {
      this.#watched.add(replica);
      replica.startWaiters.add(this);
    }
    this.#request.connection.dependents.add(this);
  }

  onStepped(replica: Replica): void {
    for (const goal of this.#goals) if (goal.replica === replica) this.#look(goal);
    if (this.#goals.size > 0) return;
    this.#end();
    this.#respond();
  }

  onConnectionClosed(): void {
    this.#end();
    this.#request.drop();
  }

  #begin(row: Row, index: number): Answer | undefined {
    const lookup = lookUpPartition(this.#services, row.topicId, row.partition);
    if (lookup.kind === "refused") return refused(lookup.error, lookup.message);
    const { replica } = lookup;
    const { core, limits } = replica;
    const refusal = core.refusalOf(NO_LEADER_EPOCH);
    if (refusal !== undefined) return refused(refusal);
    if ((limits.cleanupPolicy & CLEANUP.DELETE) === 0)
      return refused("POLICY_VIOLATION", `cleanup.policy of ${replica.topicName} has no delete`);
    const { highWatermark } = core;
    const toOffset = row.offset === ALL ? highWatermark : row.offset;
    if (toOffset < 0 || toOffset > highWatermark)
      return refused("OFFSET_OUT_OF_RANGE", `${row.offset} is not -1 or 0 to ${highWatermark}`);
    const needed = Math.min(toOffset, recordsEnd(replica));
    raiseLogStart(this.#services.replicas, replica, { toOffset: needed });
    this.#goals.add({ index, replica, toOffset: needed, leaderEpoch: core.leaderEpoch });
    return undefined;
  }

  #look(goal: Goal): void {
    const { replicas } = this.#services;
    const { core, isDropped } = goal.replica;
    const isLost = isDropped || !core.isLeader || core.leaderEpoch !== goal.leaderEpoch;
    const lowWatermark = isLost ? -1 : core.lowWatermark(replicas.eligible);
    const isDone = lowWatermark >= goal.toOffset || (mutant("S-30w") && core.startOffset >= goal.toOffset);
    if (!isLost && !isDone) return;
    this.#answers[goal.index] = isLost
      ? refused("NOT_LEADER_OR_FOLLOWER")
      : { error: "NONE", message: null, lowWatermark };
    this.#goals.delete(goal);
  }

  #expire(): void {
    const { replicas } = this.#services;
    for (const { index, replica, toOffset } of this.#goals) {
      const message = `not every living replica has said that it has nothing below ${toOffset} any more`;
      const lowWatermark = replica.core.lowWatermark(replicas.eligible);
      this.#answers[index] = { error: "REQUEST_TIMED_OUT", message, lowWatermark };
    }
    this.#end();
    this.#respond();
  }

  #end(): void {
    for (const replica of this.#watched) replica.startWaiters.delete(this);
    this.#goals.clear();
    this.#request.connection.dependents.delete(this);
    this.#deadline?.cancel();
    this.#services.accountant.endDelay();
  }

  #respond(): void {
    const entries = this.#answers.map((answer) => answer ?? refused("UNKNOWN_SERVER_ERROR"));
    this.#request.respond({ entries });
  }
}

/** From here on the log has no records, only what was told of producers: to delete that would tell it again, with every request. */
function recordsEnd({ core }: Replica): number {
  return Math.max(core.startOffset, core.producers.toldFrom);
}

function refused(error: ErrorName, message: string | null = null): Answer {
  return { error, message, lowWatermark: -1 };
}
