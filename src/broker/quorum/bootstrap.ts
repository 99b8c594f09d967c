// What a node with an empty disk becomes (D-20): founder of a cluster, founding voter of one that is being founded, or observer of one that is
// there. Pure rules first, then the round of questions that feeds them.
import { assert } from "../../base/assert.ts";
import { mutant } from "../../base/mutant.ts";
import type { ClusterId, NodeId } from "../../model/ids.ts";
import type { VoterAddress } from "../../model/quorum-voters.ts";
import type { Timers } from "../../ports/timers.ts";
import { type Configuration, type ReplicaId, toReplicaId } from "../../raft/types.ts";
import type { VoterHelloResponse } from "../../wire/native/quorum-apis.ts";
import { isReplicaId } from "./codec.ts";

export type Founding =
  /** Draw a cluster id, write the founding state, tell the others. */
  | { readonly kind: "found"; readonly configuration: Configuration }
  /** Write the founding state that somebody else drew up and that names this disk. */
  | { readonly kind: "adopt"; readonly configuration: Configuration; readonly clusterId: ClusterId }
  | { readonly kind: "observe"; readonly clusterId: ClusterId };

export interface FoundingSelf {
  readonly nodeId: NodeId;
  readonly replica: ReplicaId;
  readonly voters: readonly VoterAddress[];
  /** The only cluster that it may belong to, where the configuration says. */
  readonly wanted?: ClusterId | undefined;
}

/** The list as all founders must have it. */
export const votersText = (voters: readonly VoterAddress[]): string =>
  voters.map(({ nodeId, address }) => `${nodeId}@${address}`).join(",");

/** A quorum of this node alone needs nobody's word. */
export const isAlone = ({ nodeId, voters }: Pick<FoundingSelf, "nodeId" | "voters">): boolean =>
  voters.length === 0 || (voters.length === 1 && voters[0]?.nodeId === nodeId);

/** Undefined: not decided yet. `answers` has the latest word of each listed voter that has one. */
export function decideFounding(
  self: FoundingSelf,
  answers: ReadonlyMap<NodeId, VoterHelloResponse>,
): Founding | undefined {
  if (isAlone(self)) return { kind: "found", configuration: { voters: [self.replica], learners: [] } };
  // Being named by the founders weighs more than the word of one who does not know them (yet).
  const words = [...answers.values()];
  const adoption = words.map((answer) => adopted(self, answer)).find((founding) => founding !== undefined);
  if (adoption !== undefined) return adoption;
  const clusters = clustersOf(answers);
  return clusters.size === 0 ? decideByEmpty(self, answers) : observed(self, [...clusters.keys()]);
}

function adopted({ replica }: FoundingSelf, answer: VoterHelloResponse): Founding | undefined {
  const { state, founding, configuration, clusterId } = answer;
  if (state !== "formed" || clusterId === null || !founding || configuration === null) return undefined;
  const { voters } = configuration;
  if (!voters.includes(replica) || !voters.every(isReplicaId)) return undefined;
  return { kind: "adopt", clusterId, configuration: { voters, learners: [] } };
}

/** The clusters of the listed nodes. Only the word of one that has a log: another observer does not know whether the founders named this disk. */
function clustersOf(answers: ReadonlyMap<NodeId, VoterHelloResponse>): Map<ClusterId, NodeId[]> {
  const clusters = new Map<ClusterId, NodeId[]>();
  for (const [nodeId, { state, configuration, clusterId }] of answers) {
    if (state !== "formed" || clusterId === null || configuration === null) continue;
    clusters.set(clusterId, [...(clusters.get(clusterId) ?? []), nodeId]);
  }
  return clusters;
}

/** Between several clusters only the configuration can choose: one of those nodes was started alone before, say. */
function observed({ wanted }: FoundingSelf, clusters: readonly ClusterId[]): Founding | undefined {
  const [only] = clusters;
  if (wanted !== undefined && clusters.includes(wanted)) return { kind: "observe", clusterId: wanted };
  return clusters.length === 1 && only !== undefined ? { kind: "observe", clusterId: only } : undefined;
}

/** Only when every listed voter is empty and has the same list, and only the lowest: two founders would be two clusters. */
function decideByEmpty(
  { nodeId, replica, voters }: FoundingSelf,
  answers: ReadonlyMap<NodeId, VoterHelloResponse>,
): Founding | undefined {
  if (voters[0]?.nodeId !== nodeId) return undefined;
  const text = votersText(voters);
  const replicas: ReplicaId[] = [replica];
  for (const { nodeId: other } of voters) {
    if (other === nodeId) continue;
    const answer = answers.get(other);
    if (answer?.state === "empty" && answer.voters === text) replicas.push(toReplicaId(other, answer.directoryId));
  }
  const needed = mutant("D20b") ? Math.floor(voters.length / 2) + 1 : voters.length;
  if (replicas.length < needed) return undefined;
  return { kind: "found", configuration: { voters: replicas.toSorted(), learners: [] } };
}

/** What a person is told while it is not decided. */
export function undecidedBecause(self: FoundingSelf, answers: ReadonlyMap<NodeId, VoterHelloResponse>): string {
  const clusters = clustersOf(answers);
  if (clusters.size > 1) return betweenClusters(clusters);
  const text = votersText(self.voters);
  const others = self.voters.filter(({ nodeId }) => nodeId !== self.nodeId);
  const silent = others.filter(({ nodeId }) => !answers.has(nodeId)).map(({ nodeId }) => nodeId);
  const differing = others.filter(({ nodeId }) => (answers.get(nodeId)?.voters ?? text) !== text);
  const counted = self.voters.length - silent.length;
  const reachable = `waiting for a quorum: ${counted} of ${self.voters.length} voters reachable`;
  if (differing.length > 0)
    return `${reachable}; controller.quorum.voters differs at node ${differing.map(({ nodeId }) => nodeId).join(", ")}`;
  return silent.length > 0 ? `${reachable}; not node ${silent.join(", ")}` : reachable;
}

function betweenClusters(clusters: ReadonlyMap<ClusterId, readonly NodeId[]>): string {
  const whose = [...clusters].map(([clusterId, nodeIds]) => `node ${nodeIds.join(", ")} of ${clusterId}`);
  return `the nodes of controller.quorum.voters belong to different clusters (${whose.join("; ")}): correct the list, wipe the stray node, or set cluster.id`;
}

export interface BootstrapParts {
  readonly self: FoundingSelf;
  readonly timers: Timers;
  ask(nodeId: NodeId, timeoutMs: number): Promise<VoterHelloResponse>;
}

const ROUND_MS = 100;
const ASK_TIMEOUT_MS = 1_000;

/** Asks the listed voters, again and again, until it is decided or ended. */
export class Bootstrap {
  readonly #parts: BootstrapParts;
  readonly #answers = new Map<NodeId, VoterHelloResponse>();
  readonly #asking = new Set<NodeId>();
  /** Asked at least once, to the end. */
  readonly #asked = new Set<NodeId>();
  #decided: ((founding: Founding) => void) | undefined;

  constructor(parts: BootstrapParts) {
    this.#parts = parts;
  }

  get trouble(): string {
    return undecidedBecause(this.#parts.self, this.#answers);
  }

  /** Never resolves once ended. */
  run(): Promise<Founding> {
    assert(this.#decided === undefined, "a bootstrap is run once");
    return new Promise((resolve) => {
      this.#decided = resolve;
      this.#round();
    });
  }

  end(): void {
    this.#decided = undefined;
  }

  #round(): void {
    this.#look();
    if (this.#decided === undefined) return;
    for (const { nodeId } of this.#parts.self.voters) if (nodeId !== this.#parts.self.nodeId) this.#ask(nodeId);
    this.#parts.timers.after(ROUND_MS, () => this.#round());
  }

  #ask(nodeId: NodeId): void {
    if (this.#asking.has(nodeId)) return;
    this.#asking.add(nodeId);
    this.#parts.ask(nodeId, ASK_TIMEOUT_MS).then(
      (answer) => {
        this.#ended(nodeId);
        // Another node at that address says nothing of this one.
        if (answer.nodeId === nodeId) this.#answers.set(nodeId, answer);
        this.#look();
      },
      () => {
        this.#ended(nodeId);
        // It may come back as another one: its old word does not count.
        this.#answers.delete(nodeId);
      },
    );
  }

  #ended(nodeId: NodeId): void {
    this.#asking.delete(nodeId);
    this.#asked.add(nodeId);
  }

  #look(): void {
    const decided = this.#decided;
    if (decided === undefined) return;
    const { self } = this.#parts;
    const founding = decideFounding(self, this.#answers);
    // Joins only once everybody listed was asked: the first to answer may be a stray of another cluster.
    const isEarly = self.voters.some(({ nodeId }) => nodeId !== self.nodeId && !this.#asked.has(nodeId));
    if (founding === undefined || (founding.kind === "observe" && isEarly)) return;
    this.#decided = undefined;
    decided(founding);
  }
}
