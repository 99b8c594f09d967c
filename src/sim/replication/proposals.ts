// Changes of ISRs on their way from the leaders of one broker to the controller: asked until answered, or until newer metadata comes.
import type { PartitionImage } from "../../metadata/image.ts";
import type { ErrorName } from "../../model/errors.ts";
import type { SimNode } from "./node.ts";
import type { IsrProposal } from "./replica.ts";
import { CONTROLLER } from "./place.ts";
import type { ReplicationWorld } from "./world.ts";

const RETRY_MS = 400;

export class Proposals {
  readonly #world: ReplicationWorld;
  readonly #node: SimNode;
  readonly #open = new Map<number, IsrProposal>();

  constructor(world: ReplicationWorld, node: SimNode) {
    this.#world = world;
    this.#node = node;
  }

  propose(partition: number, proposal: IsrProposal): void {
    this.#world.mark(proposal.wantsMove ? "move of leadership proposed" : "ISR change proposed");
    this.#open.set(partition, proposal);
    this.#send(partition, proposal);
  }

  superseded(partition: number, { leaderEpoch, partitionEpoch }: PartitionImage): void {
    const proposal = this.#open.get(partition);
    if (proposal === undefined) return;
    if (leaderEpoch > proposal.leaderEpoch || partitionEpoch > proposal.partitionEpoch) this.#open.delete(partition);
  }

  #send(partition: number, proposal: IsrProposal): void {
    const node = this.#node;
    const world = this.#world;
    const { nodeId, brokerEpoch, life } = node;
    if (this.#open.get(partition) !== proposal || node.life !== life) return;
    if (brokerEpoch !== undefined) {
      world.trace(
        () =>
          `${nodeId} proposes p${partition} ISR [${proposal.isr.map((member) => member.nodeId).join(" ")}] on ${proposal.leaderEpoch}/${proposal.partitionEpoch}${proposal.wantsMove ? ", wants to move" : ""}`,
      );
      const reply = (error: ErrorName): void =>
        world.control(CONTROLLER, nodeId, () => {
          if (node.life === life) node.whenRunning(() => this.#answered(partition, proposal, error));
        });
      world.propose(nodeId, () => world.controller.alterPartition({ nodeId, brokerEpoch, partition, proposal }, reply));
    }
    world.at(RETRY_MS, () => {
      if (node.life === life) node.whenRunning(() => this.#send(partition, proposal));
    });
  }

  #answered(partition: number, proposal: IsrProposal, error: ErrorName): void {
    if (this.#open.get(partition) !== proposal) return;
    switch (error) {
      case "NOT_CONTROLLER":
        return; // asked again
      case "NONE":
      case "FENCED_LEADER_EPOCH":
      case "INVALID_UPDATE_VERSION":
      case "INVALID_REQUEST":
      case "STALE_BROKER_EPOCH":
      case "NEW_LEADER_ELECTED":
        // Metadata will tell.
        this.#open.delete(partition);
        break;
      default:
        this.#open.delete(partition);
    }
    if (error === "NONE") return;
    this.#world.mark(`ISR change refused: ${error}`);
    this.#node.replica(partition)?.isrChangeRefused(proposal.partitionEpoch, error);
  }
}
