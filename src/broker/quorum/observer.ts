// A node that is no voter pulls what is committed from one that is (D-21): entries with a long poll, a snapshot when it is far behind.
import { concatBytes } from "../../base/bytes.ts";
import type { Rng } from "../../base/rng.ts";
import { asOttlaError, OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Timers } from "../../ports/timers.ts";
import type { Term } from "../../raft/types.ts";
import { entryOf, isReplicaId, owned } from "./codec.ts";
import type { FetchMetadataResponse } from "../../wire/native/quorum-apis.ts";
import type { StateMachine } from "./state-machine.ts";

const WAIT_MS = 1_000;
const ANSWER_BYTES_MAX = 1024 * 1024;
/** Beyond what the peer may wait. */
const ANSWER_GRACE_MS = 2_000;
const RETRY_MS = 100;
/** Bound: a snapshot is held in memory while it comes. */
const SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024;

export interface Pulled {
  readonly response: FetchMetadataResponse;
  readonly bodies: readonly Uint8Array[];
}

export interface PullRequest {
  readonly start: number;
  readonly startTerm: number;
  readonly maxWaitMs: number;
  readonly maxBytes: number;
  readonly snapshotEnd: number;
  readonly snapshotPosition: number;
}

export interface ObserverParts {
  readonly timers: Timers;
  readonly rng: Rng;
  readonly machine: StateMachine;
  /** Voters as far as known, without this node. */
  targets(): readonly NodeId[];
  pull(from: NodeId, request: PullRequest, timeoutMs: number): Promise<Pulled>;
  /** The image is as new as the peer's. */
  onCaughtUp(): void;
  onLeader(leader: NodeId | null): void;
  onFailed(error: OttlaError): void;
}

interface Loading {
  readonly end: number;
  readonly pieces: Uint8Array[];
  position: number;
}

/** Invariant: one request under way at most. */
export class Observer {
  readonly #parts: ObserverParts;
  #isOn = false;
  #isPulling = false;
  #target: NodeId | undefined;
  /** Those that did not work, since one did. Bound: voters that were ever known. */
  readonly #tried = new Set<NodeId>();
  #loading: Loading | undefined;
  #fault: string | undefined;

  constructor(parts: ObserverParts) {
    this.#parts = parts;
  }

  get isOn(): boolean {
    return this.#isOn;
  }
  /** Why the last pull failed, for people. */
  get fault(): string | undefined {
    return this.#fault;
  }

  set isOn(isOn: boolean) {
    this.#isOn = isOn;
    if (!isOn) this.#loading = undefined;
    else if (!this.#isPulling) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isPulling = true;
    while (this.#isOn) {
      const target = this.#chosen();
      const isFine = target !== undefined && (await this.#pullFrom(target));
      if (isFine) {
        this.#tried.clear();
        continue;
      }
      if (target !== undefined) this.#tried.add(target);
      this.#target = undefined;
      if (this.#isOn) await new Promise<void>((resolve) => void this.#parts.timers.after(RETRY_MS, resolve));
    }
    this.#isPulling = false;
  }

  /** stays with one that works, leaves one that does not, and asks all others before it asks that one again: each silent one costs seconds. */
  #chosen(): NodeId | undefined {
    const targets = this.#parts.targets();
    if (this.#target !== undefined && targets.includes(this.#target)) return this.#target;
    let left = targets.filter((target) => !this.#tried.has(target));
    if (left.length === 0) {
      this.#tried.clear();
      left = [...targets];
    }
    this.#target = left.length === 0 ? undefined : this.#parts.rng.pick(left);
    return this.#target;
  }

  /** False: try another one, a little later. */
  async #pullFrom(target: NodeId): Promise<boolean> {
    const { machine, pull } = this.#parts;
    const request: PullRequest = {
      start: machine.end,
      startTerm: machine.lastTerm,
      maxWaitMs: WAIT_MS,
      maxBytes: ANSWER_BYTES_MAX,
      snapshotEnd: this.#loading?.end ?? -1,
      snapshotPosition: this.#loading?.position ?? 0,
    };
    let pulled: Pulled;
    try {
      pulled = await pull(target, request, WAIT_MS + ANSWER_GRACE_MS);
    } catch (thrown) {
      const error = asOttlaError(thrown);
      this.#fault = error.message;
      if (error.code === "METADATA_DIVERGED") this.#end(error);
      return false;
    }
    if (!this.#isOn) return true;
    try {
      return this.#take(pulled);
    } catch (thrown) {
      this.#end(asOttlaError(thrown));
      return true;
    }
  }

  #end(error: OttlaError): void {
    this.#isOn = false;
    this.#parts.onFailed(error);
  }

  #take({ response, bodies }: Pulled): boolean {
    const { machine, onCaughtUp, onLeader } = this.#parts;
    this.#fault = undefined;
    onLeader(response.leaderId < 0 ? null : (response.leaderId as NodeId));
    if (response.snapshot !== null) return this.#takePiece(response.snapshot, bodies[0]);
    this.#loading = undefined;
    response.entries.forEach(({ term, kind }, at) => {
      const index = response.start + at;
      // The Raft core of this node may have brought it meanwhile.
      if (index === machine.end)
        machine.apply(entryOf({ index, term, kind, bytes: owned(bodies[at] ?? new Uint8Array(0)) }));
    });
    if (machine.end >= response.commitEnd) onCaughtUp();
    // One that knows no leader may be cut off, and the others far ahead.
    return response.leaderId >= 0;
  }

  #takePiece(snapshot: NonNullable<FetchMetadataResponse["snapshot"]>, bytes: Uint8Array | undefined): boolean {
    const { end, lastTerm, sizeBytes, position, configuration } = snapshot;
    if (sizeBytes > SNAPSHOT_BYTES_MAX) throw new OttlaError("DATA_DAMAGED", `a snapshot of ${sizeBytes} bytes`);
    if (position === 0) this.#loading = { end, pieces: [], position: 0 };
    const loading = this.#loading;
    if (loading?.end !== end || loading.position !== position || bytes === undefined || bytes.length === 0) {
      this.#loading = undefined;
      return false;
    }
    loading.pieces.push(owned(bytes));
    loading.position += bytes.length;
    if (loading.position < sizeBytes) return true;
    this.#loading = undefined;
    const { voters, learners } = configuration;
    if (loading.position > sizeBytes || !voters.every(isReplicaId) || !learners.every(isReplicaId)) return false;
    const meta = { end, lastTerm: lastTerm as Term, configuration: { voters, learners } };
    this.#parts.machine.load(meta, concatBytes(loading.pieces));
    return true;
  }
}
