// The controller's side of registrations and heartbeats: who is let in, who may lead, who may go.
import {
  decideRegistration,
  decideUnfence,
  decideUnregistration,
  type FenceWish,
  type RegistrationWish,
} from "../../metadata/controller.ts";
import { accepted } from "../../metadata/decision.ts";
import type { BrokerImage } from "../../metadata/image.ts";
import type { Sessions } from "../../metadata/sessions.ts";
import { mutant } from "../../base/mutant.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId, TopicId } from "../../model/ids.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Logger } from "../../ports/logger.ts";
import type {
  BrokerHeartbeatRequest,
  BrokerHeartbeatResponse,
  RegisterBrokerRequest,
  RegisterBrokerResponse,
  UnregisterBrokerRequest,
} from "../../wire/native/quorum-apis.ts";
import type { PeerLinks } from "../quorum/peers.ts";
import type { ChangeSource, MetadataQuorum } from "../quorum/types.ts";
import type { AppliedEnds } from "./applied-ends.ts";
import type { Damages } from "./damages.ts";
import type { Departures } from "./departures.ts";

/** To find out whether a process that is to be replaced is still there. */
const ASK_OLD_MS = 1_000;

export interface RegistrationsDeps {
  readonly links: Pick<PeerLinks, "whoIsAt">;
  readonly quorum: Pick<MetadataQuorum, "image" | "propose" | "barrier">;
  readonly sessions: Sessions;
  readonly damages: Damages;
  readonly departures: Departures;
  readonly applied: Pick<AppliedEnds, "told" | "forget">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs work that nobody waits for. */
  readonly run: (work: Promise<unknown>) => void;
  readonly onUnfenced: (broker: BrokerImage) => void;
  readonly onDropped: (nodeId: NodeId, topicIds: readonly TopicId[]) => void;
  /** True: decided. */
  readonly fence: (wish: FenceWish) => Promise<boolean>;
}

export class Registrations {
  readonly #deps: RegistrationsDeps;
  /** Being unfenced, or made leader of more. */
  readonly #unfencing = new Set<NodeId>();
  /** Brokers whose disks are low on space, as each last told. */
  readonly #low = new Set<NodeId>();
  /** Who has applied everything below this knows that it was fenced: it leads nothing any more when it is unfenced. */
  readonly #fencedEnd = new Map<NodeId, number>();
  /** When each gave a sign of life last, since this node is the controller. */
  readonly #heardMs = new Map<NodeId, number>();

  constructor(deps: RegistrationsDeps) {
    this.#deps = deps;
  }

  /** A new controller knows nothing of before. */
  begin(): void {
    this.#low.clear();
    this.#heardMs.clear();
    this.#fencedEnd.clear();
    const { image } = this.#deps.quorum;
    for (const { nodeId, isFenced } of image.brokers) if (isFenced) this.#fencedEnd.set(nodeId, image.endOffset);
  }

  /** By the entry before `end`. */
  fenced(nodeId: NodeId, end: number): void {
    this.#fencedEnd.set(nodeId, end);
  }

  isLowOnSpace(nodeId: NodeId): boolean {
    return this.#low.has(nodeId);
  }

  get lowOnSpace(): ReadonlySet<NodeId> {
    return this.#low;
  }

  heard(nodeId: NodeId): void {
    this.#heardMs.set(nodeId, this.#deps.clock.monoMs());
  }

  /** False: it may be dead, and nobody has noticed yet. */
  isHeardSince(nodeId: NodeId, sinceMs: number): boolean {
    return (this.#heardMs.get(nodeId) ?? Number.NEGATIVE_INFINITY) >= sinceMs;
  }

  async register(request: RegisterBrokerRequest): Promise<RegisterBrokerResponse> {
    const { quorum, sessions, clock, logger } = this.#deps;
    const { nodeId, versionsMin, versionsMax, lastBrokerEpoch, ...rest } = request;
    const wish = (): RegistrationWish => ({
      ...rest,
      nodeId,
      metadataVersions: { min: versionsMin, max: versionsMax },
      storedBrokerEpoch: lastBrokerEpoch < 0 ? null : lastBrokerEpoch,
      hasLiveSession: sessions.isLive(nodeId),
      nowMs: clock.wallMs(),
    });
    const fault = await this.#copyFault(request);
    if (fault !== undefined) throw fault;
    const decision = await quorum.propose((image) => decideRegistration(image, wish()));
    if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
    const broker = quorum.image.broker(nodeId);
    if (broker?.incarnationId !== request.incarnationId)
      throw new OttlaError("STALE_BROKER_EPOCH", `node ${nodeId} has registered again since`);
    sessions.heard(nodeId, clock.monoMs());
    const { brokerEpoch, restart, address } = broker;
    if (decision.records.length > 0) logger.info("broker_let_in", { nodeId, brokerEpoch, restart, address });
    return { brokerEpoch };
  }

  /**
   * A second process on the same disk, elsewhere: the lock of the disk says that the first is dead (D-1), unless the disk was copied. So the first
   * is asked where it registered. It lives when it answers in its broker epoch, or is heard of meanwhile.
   */
  async #copyFault({
    nodeId,
    directoryId,
    incarnationId,
    address,
  }: RegisterBrokerRequest): Promise<OttlaError | undefined> {
    const { quorum, sessions, links } = this.#deps;
    const known = quorum.image.broker(nodeId);
    const isSecond = known?.directoryId === directoryId && known.incarnationId !== incarnationId;
    if (!isSecond || known.address === address || !sessions.isLive(nodeId) || mutant("D1-copy")) return undefined;
    const heardMs = sessions.heardMs(nodeId);
    const answer = await links.whoIsAt(known.address, ASK_OLD_MS);
    const isThere = answer?.nodeId === nodeId && answer.brokerEpoch === known.brokerEpoch;
    const isHeard =
      quorum.image.broker(nodeId)?.brokerEpoch === known.brokerEpoch && sessions.heardMs(nodeId) !== heardMs;
    if (!isThere && !isHeard) return undefined;
    return new OttlaError(
      "DUPLICATE_BROKER_REGISTRATION",
      `node ${nodeId} lives at ${known.address} with the same directory ${directoryId}: the one at ${address} is a copy of it`,
    );
  }

  async unregister(
    { nodeId, isForced }: UnregisterBrokerRequest,
    members: () => readonly NodeId[],
    source: ChangeSource,
  ): Promise<void> {
    const { quorum, sessions, logger } = this.#deps;
    const decision = await quorum.propose(
      (image) =>
        decideUnregistration(image, { nodeId, isForced, members: members(), hasLiveSession: sessions.isLive(nodeId) }),
      source,
    );
    if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
    this.#deps.damages.forget(nodeId);
    this.#deps.departures.forget(nodeId);
    this.#deps.applied.forget(nodeId);
    this.#low.delete(nodeId);
    this.#fencedEnd.delete(nodeId);
    logger.info("broker_unregistered", { nodeId, isForced });
  }

  async heartbeat(request: BrokerHeartbeatRequest): Promise<BrokerHeartbeatResponse> {
    const { nodeId } = request;
    const { sessions, clock, departures, applied, damages, onDropped, run } = this.#deps;
    this.#inEpoch(request);
    sessions.heard(nodeId, clock.monoMs());
    this.heard(nodeId);
    departures.heard(nodeId, request.brokerEpoch);
    applied.told(nodeId, request.brokerEpoch, request.appliedEnd);
    if (request.isLowOnSpace) this.#low.add(nodeId);
    else this.#low.delete(nodeId);
    onDropped(nodeId, request.droppedTopics);
    // Before the broker may be elected anywhere, and before it may drop a log: it believes the answer.
    await damages.reported(request);
    const broker = this.#inEpoch(request);
    if (request.wantsShutdown) return this.#letGo(broker);
    if (this.#hasToUnfence(broker, request)) run(this.#unfence(request));
    if (!broker.isFenced) await this.#ledSince();
    return { isFenced: this.#inEpoch(request).isFenced, mayShutDown: false };
  }

  /**
   * A broker that is told that it is not fenced counts on a session from when it asked (invariant 24). One that does not know yet that it is no controller
   * any more must not say so: its successor has begun to count before.
   */
  async #ledSince(): Promise<void> {
    const stale = mutant("I24d") ? null : await this.#deps.quorum.barrier(true);
    if (stale !== null) throw stale;
  }

  #inEpoch({ nodeId, brokerEpoch, incarnationId }: BrokerHeartbeatRequest): BrokerImage {
    const broker = this.#deps.quorum.image.broker(nodeId);
    if (broker?.brokerEpoch === brokerEpoch && broker.incarnationId === incarnationId) return broker;
    const known =
      broker === undefined ? "is not registered" : `is in broker epoch ${broker.brokerEpoch} of another process`;
    throw new OttlaError("STALE_BROKER_EPOCH", `node ${nodeId} ${known}, not in ${brokerEpoch}`);
  }

  /** it leads nothing any more, and the others know, before it is told that it may go. */
  async #letGo({ nodeId, brokerEpoch }: BrokerImage): Promise<BrokerHeartbeatResponse> {
    const { quorum, sessions, departures, clock, fence } = this.#deps;
    await fence({ nodeId, brokerEpoch, reason: "shutdown" });
    const broker = quorum.image.broker(nodeId);
    const isPresent = broker?.brokerEpoch === brokerEpoch;
    const isFenced = !isPresent || broker.isFenced;
    if (isFenced) sessions.end(nodeId);
    const isKnown = !isPresent || departures.mayGo(quorum.image, broker, clock.monoMs());
    return { isFenced, mayShutDown: isFenced && isKnown };
  }

  #hasToUnfence(broker: BrokerImage, { epochStored, appliedEnd }: BrokerHeartbeatRequest): boolean {
    const isDue = broker.isFenced && !this.#unfencing.has(broker.nodeId) && epochStored;
    return isDue && appliedEnd > broker.brokerEpoch && this.#knowsOfFencing(broker.nodeId, appliedEnd);
  }

  #knowsOfFencing(nodeId: NodeId, appliedEnd: number): boolean {
    return appliedEnd >= (this.#fencedEnd.get(nodeId) ?? 0) || mutant("I24f");
  }

  async #unfence({ nodeId, brokerEpoch, appliedEnd, epochStored }: BrokerHeartbeatRequest): Promise<void> {
    const { quorum, logger, onUnfenced } = this.#deps;
    const wish = { nodeId, brokerEpoch, isConfirmed: epochStored, appliedEnd };
    this.#unfencing.add(nodeId);
    try {
      const decision = await quorum.propose((image) =>
        // Fenced again meanwhile: its next heartbeats ask again.
        this.#knowsOfFencing(nodeId, appliedEnd) ? decideUnfence(image, wish) : accepted(),
      );
      const broker = quorum.image.broker(nodeId);
      if (decision.kind === "refused" || decision.records.length === 0 || broker === undefined) return;
      logger.info("broker_unfenced", { nodeId, brokerEpoch });
      onUnfenced(broker);
    } finally {
      this.#unfencing.delete(nodeId);
    }
  }
}
