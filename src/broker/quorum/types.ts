// The metadata quorum of one node as the rest of the broker sees it: one replicated log of metadata commands and the image it makes.
import type { Rng } from "../../base/rng.ts";
import type { Decision } from "../../metadata/controller.ts";
import type { MetadataImage } from "../../metadata/image.ts";
import type { MetadataRecord, VersionRange } from "../../metadata/records.ts";
import type { ErrorName, OttlaError } from "../../model/errors.ts";
import type { ClusterId, DirectoryId, NodeId } from "../../model/ids.ts";
import type { VoterAddress } from "../../model/quorum-voters.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Entropy } from "../../ports/entropy.ts";
import type { Logger } from "../../ports/logger.ts";
import type { Timers } from "../../ports/timers.ts";
import type { MessageTransport } from "../../ports/transport.ts";
import type { RaftSettings } from "../../raft/settings.ts";
import type { Configuration, ReplicaId } from "../../raft/types.ts";
import type {
  AdoptRequest,
  FetchMetadataRequest,
  FetchMetadataResponse,
  RaftRequest,
  VoterHelloRequest,
  VoterHelloResponse,
} from "../../wire/native/quorum-apis.ts";
import type { RaftStore } from "../../storage/raft-types.ts";
import type { PeerLinks } from "./peers.ts";
import type { QuorumProbe } from "./probe.ts";

/** One step of the image. Entries without a command (starts of terms, configurations) are told too, with no records. */
export interface Applied {
  readonly index: number;
  readonly records: readonly MetadataRecord[];
  /** A whole snapshot took the image's place: `quorum.image` is another object, and anything may have changed. `index` is its last entry. */
  readonly isReset: boolean;
}

export interface QuorumListener {
  onApplied(applied: Applied): void;
  /** True: this node decides from now on; its image holds everything committed before. */
  onControllerChanged(isController: boolean): void;
  /** Once; the quorum of this node does nothing any more. DISK_FAILED, DATA_DAMAGED, DATA_DIR_NEWER (an unknown record, D-31), or a bug. */
  onFailed(error: OttlaError): void;
}

/** `forming`: its disk is empty and it is not decided yet what it will be (D-20). */
export type QuorumRole = "forming" | "observer" | "learner" | "follower" | "candidate" | "leader";

export interface VoterStatus {
  readonly replicaId: ReplicaId;
  readonly nodeId: NodeId;
  readonly isLearner: boolean;
  /** Exclusive end of its log as the leader knows it; -1 where it is not known (only the leader knows). */
  readonly end: number;
  /** Since the leader last heard of it; 0 = itself, -1 = not known. */
  readonly lagMs: number;
  /** D-20: this node refuses that disk: it remembers less than it once promised. */
  readonly isRefused: boolean;
}

export interface QuorumStatus {
  readonly clusterId: ClusterId | null;
  readonly role: QuorumRole;
  readonly self: ReplicaId;
  readonly term: number;
  readonly leaderId: NodeId | null;
  readonly logStart: number;
  readonly logEnd: number;
  readonly commitEnd: number;
  readonly appliedEnd: number;
  readonly snapshotEnd: number;
  readonly voters: readonly VoterStatus[];
  /** Nodes with an open connection from here, this one included. */
  readonly reachable: readonly NodeId[];
  /** For people: what it waits for, or what is wrong; null = nothing. */
  readonly trouble: string | null;
  readonly waitingProposals: number;
}

/** one after another. `add`: learner, then voter once it has caught up. `replace`: the node's new directory in, then its old one out. */
export type QuorumChange =
  | { readonly op: "add" | "replace"; readonly nodeId: NodeId; readonly directoryId: DirectoryId }
  /** `directoryId` null: whichever member has this node id. */
  | { readonly op: "remove"; readonly nodeId: NodeId; readonly directoryId: DirectoryId | null };

export type ChangeOutcome =
  | { readonly kind: "done"; readonly configuration: Configuration }
  | { readonly kind: "refused"; readonly error: ErrorName; readonly message: string };

/** Whose change it is. What clients ask for waits behind all of the cluster's own; each source of theirs has its turns and its share of the room. */
export type ChangeSource = object | string;

export interface MetadataQuorum {
  /** Committed and applied, on every node. Another object after a reset: never keep it over a turn. */
  readonly image: MetadataImage;
  readonly clusterId: ClusterId | null;
  readonly status: QuorumStatus;
  /** Leads, and has applied everything up to its term's start. */
  readonly isController: boolean;
  /** Leader as far as this node knows. */
  readonly controllerId: NodeId | null;

  /** At most one listener of each concern; called in the order of registration. */
  listen(listener: QuorumListener): void;

  /**
   * One decision after another on the applied image. Resolves when its command is committed and applied; a refusal or an empty decision once the
   * barrier was passed, so that it is never the word of a deposed leader. Never rejects: NOT_CONTROLLER, BUSY, STORAGE_FULL and
   * BROKER_NOT_AVAILABLE say that nothing was done, REQUEST_TIMED_OUT that nobody knows. Without a source: the cluster's own.
   */
  propose(decide: (image: MetadataImage) => Decision, source?: ChangeSource): Promise<Decision>;
  /**
   * Linearizable read: null once this node is known to have led after the call and everything committed before it is applied. `isOwn`: of the cluster's
   * own, for which there is room when clients have taken theirs.
   */
  barrier(isOwn?: boolean): Promise<OttlaError | null>;
  /** Only on the controller. Bounded by `timeoutMs`; an unfinished addition goes on by itself, since leaders promote learners. */
  change(change: QuorumChange, timeoutMs: number): Promise<ChangeOutcome>;
  /** Resolves when this node leads no more. */
  transfer(to: NodeId, timeoutMs: number): Promise<ChangeOutcome>;

  /** Resolves when everything below `end` is applied here; rejects when the quorum fails or closes. */
  waitForApplied(end: number): Promise<void>;
  /** Resolves when the image has been as new as the quorum's once; rejects when this node may not take part (D-20). */
  waitForImage(): Promise<void>;

  /** Leader: hands over first. Bounded by 2 s. */
  close(): Promise<void>;
}

/** With what the broker's handlers and its other peers' work need. Rejections are OttlaErrors, to be answered as such. */
export interface HostedQuorum extends MetadataQuorum {
  readonly links: PeerLinks;
  receiveRaft(request: RaftRequest, bodies: readonly Uint8Array[]): void;
  voterHello(request: VoterHelloRequest): VoterHelloResponse;
  /** Resolves when it is durable. */
  adopt(request: AdoptRequest): Promise<void>;
  /** Waits up to the request's time for something new; ends when the quorum closes. */
  fetchMetadata(
    request: FetchMetadataRequest,
  ): Promise<{ readonly response: FetchMetadataResponse; readonly bodies: readonly Uint8Array[] }>;
}

/** Who this node is; of the log store. */
export interface QuorumIdentity {
  readonly nodeId: NodeId;
  readonly directoryId: DirectoryId;
  readonly clusterId: ClusterId | null;
  /** Durable when it resolves; once only. */
  adoptCluster(clusterId: ClusterId): Promise<void>;
}

export interface QuorumDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly entropy: Entropy;
  readonly rng: Rng;
  readonly logger: Logger;
  readonly transport: MessageTransport;
  readonly identity: QuorumIdentity;
  /** Closed by the quorum. */
  readonly store: RaftStore;
  /** host:port where the others find this node; they learn it from its questions. */
  readonly address?: string | undefined;
  /** What this software calls itself to its peers. */
  readonly software: string;
  /** Metadata versions that this build takes part in; a new cluster starts at the highest. */
  readonly metadataVersions?: VersionRange | undefined;
  readonly probe?: QuorumProbe | undefined;
}

export interface QuorumOptions {
  /** The address list; empty: a quorum of this node alone. */
  readonly voters: readonly VoterAddress[];
  /** Of a new cluster; any other one is refused. */
  readonly clusterId?: ClusterId | undefined;
  /** Record bytes applied since the last snapshot that make a new one due. */
  readonly snapshotBytes: number;
  readonly proposalsMax: number;
  readonly raft?: Partial<RaftSettings> | undefined;
}
