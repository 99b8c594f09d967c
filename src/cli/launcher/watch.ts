// Keeps looking at the launcher's cluster and tells each new view of it: at once when a process changes, else by asking the nodes.
import { setTimeout as delay } from "node:timers/promises";
import { localNode, type LocalCluster, targetOf } from "../cluster/look.ts";
import { type ClusterView, clusterView } from "../cluster/view.ts";
import { type ClusterObservation, NOTHING_SEEN, type TopicTally } from "../cluster/observation.ts";
import { ClusterObserver } from "../cluster/observer.ts";

const QUICK_MS = 250;
const CALM_MS = 1000;
const ANSWER_MS = 1000;
/** Topics are asked for so seldom that it takes at most a twentieth of the time, however many there are. */
const TOPICS_SHARE = 20;

export class ClusterWatch {
  readonly #sources: () => LocalCluster;
  readonly #onView: (view: ClusterView) => void;
  readonly #observer = new ClusterObserver();
  #seen: ClusterObservation = NOTHING_SEEN;
  #topics: TopicTally | null = null;
  #topicsNotBeforeMs = 0;
  /** When the look began whose outcome is known; wall clock, as the nodes' states are. */
  #seenSince = 0;
  #wake: () => void = () => undefined;
  #isEnded = false;
  /** Told after the look that begins next. */
  #waiting: (() => void)[] = [];
  #running: Promise<void> | undefined;

  constructor(sources: () => LocalCluster, onView: (view: ClusterView) => void) {
    this.#sources = sources;
    this.#onView = onView;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** A process changed: tell it, and ask the nodes soon. */
  poke(): void {
    if (this.#isEnded || this.#running === undefined) return;
    this.#tell();
    this.#wake();
  }

  /** Resolves after a look that began from now on was told. */
  async next(): Promise<void> {
    if (this.#isEnded) return;
    const told = new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#wake();
    await told;
  }

  async end(): Promise<void> {
    this.#isEnded = true;
    this.#wake();
    await this.#observer.close();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isEnded) {
      const waiting = this.#waiting.splice(0);
      await this.#look();
      if (this.#isEnded) {
        for (const resolve of [...waiting, ...this.#waiting]) resolve();
        return;
      }
      const view = this.#tell();
      for (const resolve of waiting) resolve();
      if (this.#waiting.length > 0) continue;
      const isCalm = view.condition === "healthy" && view.nodes.every(({ state }) => state === "running");
      await this.#pause(isCalm ? CALM_MS : QUICK_MS);
    }
  }

  async #pause(ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await delay(ms, undefined, { signal: woken.signal }).catch(() => undefined);
  }

  async #look(): Promise<void> {
    const targets = this.#sources().nodes.map((state) => targetOf(localNode(state)));
    const startedMs = performance.now();
    const since = Date.now();
    const withTopics = startedMs >= this.#topicsNotBeforeMs;
    const seen = await this.#observer.look(targets, { timeoutMs: ANSWER_MS, withTopics });
    if (seen.topics !== null) {
      this.#topics = seen.topics;
      const nowMs = performance.now();
      this.#topicsNotBeforeMs = nowMs + (nowMs - startedMs) * TOPICS_SHARE;
    }
    this.#seen = { ...seen, topics: this.#topics };
    this.#seenSince = since;
  }

  #tell(): ClusterView {
    const { cluster, nodes, phase } = this.#sources();
    const local = nodes.map(localNode);
    const gone = new Set(local.filter((node) => !node.isAlive || node.isPaused).map(({ state }) => state.nodeId));
    // What was seen before a process came into its state says nothing of it.
    const stale = new Set(
      nodes.filter(({ since }) => Date.parse(since) >= this.#seenSince).map(({ nodeId }) => nodeId),
    );
    const seenNodes = this.#seen.nodes
      .filter(({ nodeId }) => gone.has(nodeId) || !stale.has(nodeId))
      .map((node) => (gone.has(node.nodeId) ? { ...node, readiness: null, quorum: null } : node));
    const view = clusterView({ cluster, nodes: local, seen: { ...this.#seen, nodes: seenNodes }, phase });
    this.#onView(view);
    return view;
  }
}
