// Elections that an operator asks for. An unclean one is told as an event.
import { type Decision, decideElections, type ElectionVerdict, type PartitionRef } from "../../metadata/controller.ts";
import type { MetadataImage, PartitionImage, TopicImage } from "../../metadata/image.ts";
import { OttlaError } from "../../model/errors.ts";
import type { NodeId } from "../../model/ids.ts";
import type { Logger } from "../../ports/logger.ts";
import { FIELD_LIMITS } from "../../wire/native/layout.ts";
import type { ElectLeadersRequest, ElectLeadersResponse } from "../../wire/native/replication-apis.ts";
import type { ChangeSource, MetadataQuorum } from "../quorum/types.ts";
import { ReplicaSurvey, type ReplicaSurveyDeps } from "./replica-survey.ts";

export interface LeaderElectionsDeps {
  readonly quorum: Pick<MetadataQuorum, "image" | "propose" | "barrier">;
  readonly logger: Logger;
  readonly isDamaged: (nodeId: NodeId, ref: PartitionRef) => boolean;
  readonly survey: ReplicaSurveyDeps;
}

/** Of one command, which has room for these. */
const AT_ONCE = 1_000;

const NO_VERDICT: ElectionVerdict = { error: "UNKNOWN_SERVER_ERROR", message: "", endOffset: -1 };

type Entry = ElectLeadersResponse["entries"][number];

export class LeaderElections {
  readonly #deps: LeaderElectionsDeps;

  constructor(deps: LeaderElectionsDeps) {
    this.#deps = deps;
  }

  /** Rejects with OttlaError; some may have been elected then. */
  async elect(request: ElectLeadersRequest, source?: ChangeSource): Promise<ElectLeadersResponse> {
    const { quorum } = this.#deps;
    const stale = await quorum.barrier();
    if (stale !== null) throw stale;
    const wanted = wantedOf(quorum.image, request);
    const isNamed = request.partitions !== null;
    const entries: Entry[] = [];
    let omitted = 0;
    for (let from = 0; from < wanted.length; from += AT_ONCE) {
      for (const entry of await this.#electSome(request, wanted.slice(from, from + AT_ONCE), source)) {
        if (!isNamed && entry.error === "ELECTION_NOT_NEEDED") continue;
        if (entries.length < FIELD_LIMITS.ELECTED) entries.push(entry);
        else omitted++;
      }
    }
    return { entries, omitted, metadataEnd: quorum.image.endOffset };
  }

  async #electSome(
    { kind, nodeId, isForced }: ElectLeadersRequest,
    places: readonly (PartitionRef & { readonly topic: string })[],
    source: ChangeSource | undefined,
  ): Promise<readonly Entry[]> {
    const { quorum, isDamaged } = this.#deps;
    const survey = new ReplicaSurvey(this.#deps.survey);
    if (kind === "unclean") await survey.ask(quorum.image, places);
    let verdicts: readonly ElectionVerdict[] = [];
    const chosen = nodeId === -1 ? null : (nodeId as NodeId);
    const endOf = survey.endOf.bind(survey);
    const decision = await quorum.propose((image) => {
      const decided = decideElections(image, {
        kind,
        partitions: places,
        nodeId: chosen,
        isForced,
        isDamaged,
        endOf,
      });
      verdicts = decided.verdicts;
      return decided.decision;
    }, source);
    if (decision.kind === "refused") throw new OttlaError(decision.error, decision.message);
    if (kind === "unclean") this.#tellUnclean(decision, places, verdicts);
    return places.map(({ topicId, topic, partition }, at) => {
      const { error, message, endOffset } = verdicts[at] ?? NO_VERDICT;
      const leader = quorum.image.topic(topicId)?.partitions[partition]?.leader ?? -1;
      return { topic, partition, error, message: message === "" ? null : message, leader, endOffset };
    });
  }

  #tellUnclean(
    decision: Decision & { readonly kind: "records" },
    places: readonly PartitionRef[],
    verdicts: readonly ElectionVerdict[],
  ): void {
    const { quorum, logger } = this.#deps;
    for (const record of decision.records) {
      if (record.type !== "partition-change") continue;
      const topic = quorum.image.topic(record.topicId);
      for (const { partition, leader } of record.changes) {
        const leaderEpoch = topic?.partitions[partition]?.leaderEpoch;
        const at = places.findIndex((place) => place.topicId === record.topicId && place.partition === partition);
        const message = verdicts[at]?.message;
        logger.warn("unclean_election", { topic: topic?.name, partition, leader, leaderEpoch, message });
      }
    }
  }
}

function wantedOf(
  image: MetadataImage,
  { kind, topic: name, partitions, nodeId }: ElectLeadersRequest,
): readonly (PartitionRef & { readonly topic: string })[] {
  const isWanted = ({ leader, replicas }: PartitionImage): boolean =>
    kind === "unclean" ? leader === null : leader !== (nodeId === -1 ? replicas[0] : nodeId);
  const placesOf = ({ topicId, name: topic, partitions: all }: TopicImage) =>
    all.filter(isWanted).map(({ index }) => ({ topicId, topic, partition: index }));
  if (name === null) return [...image.topics].filter(({ isDeleting }) => !isDeleting).flatMap(placesOf);
  const topic = image.topicByName(name);
  if (topic === undefined || topic.isDeleting) throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `no topic ${name}`);
  return partitions === null
    ? placesOf(topic)
    : partitions.map((partition) => ({ topicId: topic.topicId, topic: name, partition }));
}
