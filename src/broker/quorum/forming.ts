// How a node becomes part of a cluster, once: from its disk, by founding, by adopting what a founder drew up, or as an observer (D-20).
import { asOttlaError, OttlaError } from "../../model/errors.ts";
import { type ClusterId, type NodeId, UUID_BYTES, uuidFromBytes } from "../../model/ids.ts";
import { type Configuration, nodeIdOf, type ReplicaId, type RestoredState } from "../../raft/types.ts";
import type { AdoptRequest, VoterHelloResponse } from "../../wire/native/quorum-apis.ts";
import { Bootstrap, type Founding } from "./bootstrap.ts";
import { isReplicaId } from "./codec.ts";
import { type DiskState, writeFounding, writeObserverMark } from "./formation.ts";
import type { QuorumDeps, QuorumOptions } from "./types.ts";
import { isPassing } from "./write-lane.ts";

/** After a write that the disk did not take. */
const RETRY_MS = 500;

export interface FormingParts {
  readonly deps: QuorumDeps;
  readonly options: QuorumOptions;
  readonly self: ReplicaId;
  ask(nodeId: NodeId, timeoutMs: number): Promise<VoterHelloResponse>;
  /** Tells another founding voter what was founded; it asks by itself if this gets lost. */
  tell(nodeId: NodeId, request: AdoptRequest): void;
  /** All of it is durable: the core may start. */
  onFormed(clusterId: ClusterId, restored: RestoredState): void;
  onFailed(error: OttlaError): void;
}

export class Forming {
  readonly #parts: FormingParts;
  readonly #bootstrap: Bootstrap;
  #becoming: Promise<void> | undefined;
  /** Durable. */
  #clusterId: ClusterId | null = null;
  #isEnded = false;

  constructor(parts: FormingParts) {
    const { deps, options, self } = parts;
    const { nodeId } = deps.identity;
    this.#parts = parts;
    this.#bootstrap = new Bootstrap({
      self: { nodeId, replica: self, voters: options.voters, wanted: options.clusterId },
      timers: deps.timers,
      ask: (peer, timeoutMs) => parts.ask(peer, timeoutMs),
    });
  }

  get isUndecided(): boolean {
    return this.#becoming === undefined;
  }
  get trouble(): string {
    return this.isUndecided ? this.#bootstrap.trouble : "forming";
  }

  /** What the disk says is done at once; an empty one asks around. */
  async start(disk: DiskState): Promise<void> {
    if (disk.kind !== "empty") {
      this.#becoming = this.#adoptId(disk.clusterId);
      await this.#becoming;
      this.#parts.onFormed(disk.clusterId, disk.restored);
      return;
    }
    void this.#bootstrap.run().then((founding) => this.#become(founding).catch(() => undefined));
  }

  /** A founder's word. Rejects when this disk is none that it may speak to. */
  async adopt({ clusterId, voters }: AdoptRequest): Promise<void> {
    const { options, self } = this.#parts;
    if (this.#becoming === undefined) {
      const named = voters.filter(isReplicaId);
      const isListed =
        options.voters.length === named.length &&
        options.voters.every((voter) => named.some((id) => nodeIdOf(id) === voter.nodeId));
      if (named.length !== voters.length || !named.includes(self) || !isListed)
        throw new OttlaError("INVALID_REQUEST", `${self} is none of the founding voters ${voters.join(", ")}`);
      const configuration: Configuration = { voters: named.toSorted(), learners: [] };
      this.#become({ kind: "adopt", clusterId, configuration }).catch(() => undefined);
    }
    await this.#becoming;
    const own = this.#clusterId;
    if (own !== clusterId) throw new OttlaError("INCONSISTENT_CLUSTER_ID", `this broker belongs to cluster ${own}`);
  }

  end(): void {
    this.#isEnded = true;
    this.#bootstrap.end();
  }

  #become(founding: Founding): Promise<void> {
    this.#bootstrap.end();
    this.#becoming ??= this.#carryOut(founding).catch((thrown: unknown) => {
      const error = asOttlaError(thrown);
      this.#parts.onFailed(error);
      throw error;
    });
    return this.#becoming;
  }

  async #carryOut(founding: Founding): Promise<void> {
    const { deps, self, onFormed } = this.#parts;
    const clusterId = this.#idOf(founding);
    const restored = await this.#written(() =>
      founding.kind === "observe"
        ? writeObserverMark(deps.store, self)
        : writeFounding(deps.store, founding.configuration, clusterId),
    );
    await this.#written(() => this.#adoptId(clusterId));
    if (this.#isEnded) return;
    deps.logger.info("quorum_formed", { as: founding.kind, clusterId });
    onFormed(clusterId, restored);
    if (founding.kind !== "found") return;
    const { voters } = founding.configuration;
    for (const voter of voters) if (voter !== self) this.#parts.tell(nodeIdOf(voter), { clusterId, voters });
  }

  #idOf(founding: Founding): ClusterId {
    const wanted = this.#parts.options.clusterId;
    if (founding.kind === "found") return wanted ?? this.#draw();
    if (wanted === undefined || wanted === founding.clusterId) return founding.clusterId;
    throw new OttlaError("DATA_DIR_FOREIGN", `the quorum found is of cluster ${founding.clusterId}, not of ${wanted}`);
  }

  #draw(): ClusterId {
    const bytes = new Uint8Array(UUID_BYTES);
    this.#parts.deps.entropy.fill(bytes);
    return uuidFromBytes(bytes);
  }

  async #adoptId(clusterId: ClusterId): Promise<void> {
    const { identity } = this.#parts.deps;
    if (identity.clusterId === null) await identity.adoptCluster(clusterId);
    this.#clusterId = clusterId;
  }

  /** A full disk is waited for. */
  async #written<T>(write: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await write();
      } catch (thrown) {
        const error = asOttlaError(thrown);
        if (!isPassing(error) || this.#isEnded) throw error;
        this.#parts.deps.logger.error("quorum_not_written", { code: error.code, message: error.message });
        await new Promise<void>((resolve) => void this.#parts.deps.timers.after(RETRY_MS, resolve));
      }
    }
  }
}
