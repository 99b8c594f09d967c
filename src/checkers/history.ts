// What clients of a run asked for and saw, as a list of events that checkers read; the same for simulated and for real runs.
// An operation is invoked, then ends as ok (done), fail (certainly not done) or info (not known). Calling an info a fail makes
// false alarms; calling a fail an info hides loss.
import type { Acks } from "../client/types.ts";
import type { MetadataEvent } from "./metadata-history.ts";

export interface SendInvoked {
  readonly type: "send invoked";
  readonly timeMs: number;
  readonly operation: number;
  readonly process: string;
  readonly topic: string;
  readonly partition: number;
  readonly acks: Acks;
  /** Unique in the run: `producer:sequence:partition:crc`. */
  readonly value: string;
  /** Sum of key, value, headers and timestamp as sent. */
  readonly sum: number;
  /** Its batch has a producer's numbers: it is there once at most, in the order in which its process sent (21, 22). */
  readonly isNumbered?: boolean;
  /** Of a producer with a name. A later life of the name has fenced the ones before (24). */
  readonly named?: { readonly name: string; readonly life: number };
  /** In a topic that may be compacted: the last record of each key stays. */
  readonly key?: string;
  /** It has no value: it may go, and takes what its key had before with it. */
  readonly isTombstone?: boolean;
}

export interface SendEnded {
  readonly type: "send ok" | "send failed" | "send unknown";
  readonly timeMs: number;
  readonly operation: number;
  /** Undefined unless ok, and with acks 0. */
  readonly offset: number | undefined;
  /** Of a failed or unknown one. */
  readonly reason?: string;
}

/** A batch that was sent again was answered again: the offset of one of its records (23). */
export interface SendRepeated {
  readonly type: "send repeated";
  readonly timeMs: number;
  readonly operation: number;
  readonly offset: number;
}

export interface RecordRead {
  readonly type: "read";
  readonly timeMs: number;
  readonly process: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly value: string;
  readonly sum: number;
  /** Told with the same answer. */
  readonly highWatermark: number;
  /** What the reader had asked for: nothing below it may come. */
  readonly fromOffset: number;
  /** The record that the same reader got before it from this partition, without a seek between. */
  readonly afterOffset?: number;
}

/** A partition was read whole, from its start to the end that was current when the reading began. */
export interface ScanEnded {
  readonly type: "scan";
  readonly timeMs: number;
  readonly process: string;
  readonly topic: string;
  readonly partition: number;
  readonly startOffset: number;
  readonly endOffset: number;
  readonly records: readonly { readonly offset: number; readonly value: string }[];
}

/** What a partition's end is told or found to be. */
export interface EndObserved {
  readonly type: "end";
  readonly timeMs: number;
  /** "told": a client heard it. "platter": recovery of what a power loss left on the disk gives it. */
  readonly source: "told" | "platter";
  readonly topic: string;
  readonly partition: number;
  readonly endOffset: number;
}

export interface FaultHappened {
  readonly type: "fault";
  readonly timeMs: number;
  readonly node: string;
  readonly fault: "process death" | "power loss" | "failed sync";
  /** Of a failed sync: the file holds what acknowledgements rest on (a journal), not only what can be made again from it. */
  readonly holdsPromises?: boolean;
  /** Of a failed sync: false of a process that starts or stops, and may put its files away first, within its own bound. */
  readonly isServing?: boolean;
}

/** Every copy that counted is gone or damaged, or an operator had another one lead: what was committed may be gone from here on. */
export interface PartitionLost {
  readonly type: "partition lost";
  readonly timeMs: number;
  readonly topic: string;
  readonly partition: number;
}

/** A broker begins to lead the partition, or leads it no more. */
export interface LeadershipChanged {
  readonly type: "leadership";
  readonly timeMs: number;
  readonly topic: string;
  readonly partition: number;
  /** How many believe to lead it now. */
  readonly leaders: number;
}

/** A client asked where a partition ends, and was told: as one of its brokers sees it. */
export interface LatestTold {
  readonly type: "latest";
  readonly timeMs: number;
  readonly invokedMs: number;
  readonly process: string;
  readonly topic: string;
  readonly partition: number;
  readonly endOffset: number;
}

/** The machine stands still until then, at the longest (P2). */
export interface MachinePaused {
  readonly type: "paused";
  readonly timeMs: number;
  readonly node: string;
  readonly untilMs: number;
}

/** The process stopped itself. */
export interface ProcessStopped {
  readonly type: "stopped";
  readonly timeMs: number;
  readonly node: string;
}

/** A process found its data directory damaged and did not start. No fault of the atlas excuses that. */
export interface StartRefused {
  readonly type: "start refused";
  readonly timeMs: number;
  readonly node: string;
  readonly code: string;
  readonly reason: string;
}

/** A broker sent a produce answer that says yes. */
export interface ProduceAcknowledged {
  readonly type: "acknowledged";
  readonly timeMs: number;
  readonly node: string;
}

/** A topic is about to be created, and records may go from it one by one. */
export interface TopicCompacted {
  readonly type: "topic compacted";
  readonly timeMs: number;
  readonly topic: string;
}

/** A leader appended a batch that readers are not given: its offsets are missing in what they read. */
export interface ControlAppended {
  readonly type: "control";
  readonly timeMs: number;
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  /** Inclusive. */
  readonly lastOffset: number;
}

export interface TopicDeleted {
  readonly type: "topic deleting";
  readonly timeMs: number;
  readonly topic: string;
}

/** What a client found to be wrong by itself. */
export interface ClientVerdict {
  readonly type: "verdict";
  readonly timeMs: number;
  readonly process: string;
  /** None: it is of no partition. */
  readonly topic?: string;
  readonly partition?: number;
  readonly invariant: number;
  readonly message: string;
}

/** A quantity that has a bound was seen at this value. */
export interface BudgetObserved {
  readonly type: "budget";
  readonly timeMs: number;
  readonly node: string;
  readonly budget: string;
  readonly value: number;
  readonly bound: number;
}

export type HistoryEvent =
  | SendInvoked
  | SendEnded
  | SendRepeated
  | RecordRead
  | ScanEnded
  | EndObserved
  | FaultHappened
  | PartitionLost
  | LeadershipChanged
  | LatestTold
  | MachinePaused
  | ProcessStopped
  | StartRefused
  | ProduceAcknowledged
  | TopicDeleted
  | TopicCompacted
  | ControlAppended
  | ClientVerdict
  | BudgetObserved
  | MetadataEvent;

/** As it is recorded: whoever writes it down says when. */
export type Unstamped<Event extends HistoryEvent = HistoryEvent> = Event extends HistoryEvent
  ? Omit<Event, "timeMs">
  : never;

export type PartitionName = string;

export function partitionName(place: { readonly topic: string; readonly partition: number }): PartitionName {
  return `${place.topic}-${place.partition}`;
}
