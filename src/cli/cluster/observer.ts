// Looks at a cluster: asks every node that it is told of, and every node that those name, each by itself, all at the same time.
import { Alarms } from "../../link/alarms.ts";
import { createClock } from "../../platform/clock.ts";
import { createTimers } from "../../platform/timers.ts";
import { createWebSocketTransport } from "../../platform/websocket.ts";
import type { MetadataResponse } from "../../wire/native/apis.ts";
import type { DescribeQuorumResponse } from "../../wire/native/quorum-apis.ts";
import { type LookOptions, NodeLink } from "./node-link.ts";
import type { ClusterObservation, NodeObservation, TopicTally } from "./observation.ts";
import { TopicCounter } from "./topic-tally.ts";

export interface Target {
  /** host:port. */
  readonly address: string;
  /** Undefined: it says so itself. */
  readonly nodeId?: number;
  /** True: known to answer nothing now; it is not waited for. */
  readonly isSilent?: boolean;
}

interface Known {
  readonly metadata: MetadataResponse;
  readonly tally: TopicTally | null;
}

/** Bound: addresses that one look asks. */
const NODES_MAX = 1000;

export class ClusterObserver {
  readonly #alarms = new Alarms({ clock: createClock(), timers: createTimers() });
  readonly #transport = createWebSocketTransport();
  /** By address; kept for the next look. */
  readonly #links = new Map<string, NodeLink>();

  /** Never rejects: what does not answer is seen as such. */
  async look(targets: readonly Target[], options: LookOptions): Promise<ClusterObservation> {
    const first = await Promise.all(targets.map((target) => this.#ask(target, options)));
    const known = await this.#metadata(first, options);
    const asked = new Set(targets.map(({ address }) => address));
    const more = (known?.metadata.brokers ?? [])
      .map(({ nodeId, address }) => ({ nodeId, address: bare(address) }))
      .filter(({ nodeId, address }) => !asked.has(address) && !first.some((node) => node.nodeId === nodeId))
      .slice(0, NODES_MAX);
    const second = await Promise.all(more.map((target) => this.#ask(target, options)));
    return merged([...first, ...second], known);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#links.values()].map((link) => link.close()));
    this.#alarms.close();
  }

  #link(address: string): NodeLink {
    const link =
      this.#links.get(address) ?? new NodeLink(address, { transport: this.#transport, alarms: this.#alarms });
    this.#links.set(address, link);
    return link;
  }

  async #ask({ nodeId, address, isSilent }: Target, { timeoutMs }: LookOptions): Promise<NodeObservation> {
    if (isSilent === true) return { nodeId: nodeId ?? -1, address, readiness: null, quorum: null, isFenced: null };
    const link = this.#link(address);
    const [readiness, quorum] = await Promise.all([
      link.readiness(timeoutMs),
      link.describeQuorum(timeoutMs).catch(() => null),
    ]);
    const id = nodeId ?? quorum?.nodeId ?? link.nodeId ?? -1;
    return { nodeId: id, address, readiness: readiness ?? null, quorum, isFenced: null };
  }

  /** From the controller if it answers, else from whoever serves. */
  async #metadata(nodes: readonly NodeObservation[], options: LookOptions): Promise<Known | undefined> {
    const serving = nodes.filter(({ readiness }) => readiness?.ready === true);
    const rank = ({ quorum }: NodeObservation) => (quorum?.role === "controller" ? 0 : 1);
    for (const { address } of serving.sort((one, other) => rank(one) - rank(other))) {
      const counter = new TopicCounter();
      try {
        const metadata = await this.#link(address).metadata(options, (topic) => counter.add(topic));
        return { metadata, tally: options.withTopics ? counter.tally : null };
      } catch {
        // The next one may know.
      }
    }
    return undefined;
  }
}

const bare = (address: string) => address.replace(/^ws:\/\//, "");

function merged(nodes: readonly NodeObservation[], known: Known | undefined): ClusterObservation {
  const brokers = (known?.metadata.brokers ?? []).map((broker) => ({ ...broker, address: bare(broker.address) }));
  const named = nodes.map((node): NodeObservation => {
    const isSame = (broker: { nodeId: number; address: string }) =>
      node.nodeId < 0 ? broker.address === node.address : broker.nodeId === node.nodeId;
    const broker = brokers.find(isSame);
    return broker === undefined ? node : { ...node, nodeId: broker.nodeId, isFenced: broker.isFenced };
  });
  const views = named.flatMap(({ quorum }) => quorum ?? []);
  return {
    clusterId: views.find(({ clusterId }) => clusterId !== null)?.clusterId ?? known?.metadata.clusterId ?? null,
    controllerId: controllerOf(views) ?? known?.metadata.controllerId ?? -1,
    nodes: withoutTwins(named),
    topics: known?.tally ?? null,
  };
}

/** Undefined: nobody says anything of a quorum. A controller that does not know yet that it was deposed has the lower term. */
function controllerOf(views: readonly DescribeQuorumResponse[]): number | undefined {
  const newestFirst = [...views].sort((one, other) => other.term - one.term);
  const leader = newestFirst.find(({ role }) => role === "controller");
  return leader?.nodeId ?? newestFirst[0]?.leaderId;
}

/** One node may have been named by several addresses. */
function withoutTwins(nodes: readonly NodeObservation[]): NodeObservation[] {
  const kept: NodeObservation[] = [];
  const answersFirst = (node: NodeObservation) => (node.readiness === null ? 1 : 0);
  for (const node of [...nodes].sort((one, other) => answersFirst(one) - answersFirst(other))) {
    if (node.nodeId < 0 || !kept.some((other) => other.nodeId === node.nodeId)) kept.push(node);
  }
  return kept.sort((one, other) => one.nodeId - other.nodeId);
}
