// When a leader becomes the controller: it knows everything committed before it, its image holds it, and the cluster has its first record.
import { mutant } from "../../base/mutant.ts";
import { decideCluster } from "../../metadata/controller.ts";
import type { ClusterId } from "../../model/ids.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import type { Proposals } from "./proposals.ts";
import type { StateMachine } from "./state-machine.ts";

export interface ControllershipParts {
  readonly machine: StateMachine;
  readonly proposals: () => Proposals;
  readonly core: () => RaftNode | undefined;
  readonly clusterId: () => ClusterId | null;
  /** Of a new cluster. */
  readonly metadataVersion: number;
  readonly wallMs: () => number;
  readonly onChanged: (isController: boolean) => void;
}

export class Controllership {
  readonly #parts: ControllershipParts;
  /** Leads `term` and knows what is committed before it: everything below `end`. */
  #leading: { readonly term: number; readonly end: number } | undefined;
  #isNaming = false;
  #isController = false;

  constructor(parts: ControllershipParts) {
    this.#parts = parts;
  }

  get isController(): boolean {
    return this.#isController;
  }

  /** May decide: the image holds everything committed before this term. */
  get leads(): boolean {
    const core = this.#parts.core();
    if (mutant("M38b")) return core?.role === "leader";
    const leading = this.#leading;
    return (
      core?.role === "leader" &&
      leading !== undefined &&
      leading.term === core.term &&
      this.#parts.machine.end >= leading.end
    );
  }

  onProgress(): void {
    const { machine, onChanged } = this.#parts;
    this.#lookAtLeadership();
    const { leads } = this;
    if (leads && machine.image.cluster === undefined) this.#nameCluster();
    const isController = leads && machine.image.cluster !== undefined;
    if (isController === this.#isController) return;
    this.#isController = isController;
    onChanged(isController);
  }

  #lookAtLeadership(): void {
    const core = this.#parts.core();
    if (core?.role !== "leader") this.#leading = undefined;
    else if (core.isLeaderReady && this.#leading?.term !== core.term)
      this.#leading = { term: core.term, end: core.log.commitEnd };
  }

  /** D-20: the first of all commands, by the first leader. Asked for again while it leads and there is none. */
  #nameCluster(): void {
    const clusterId = this.#parts.clusterId();
    if (this.#isNaming || clusterId === null) return;
    this.#isNaming = true;
    const wish = { clusterId, metadataVersion: this.#parts.metadataVersion, nowMs: this.#parts.wallMs() };
    void this.#parts
      .proposals()
      .propose((image) => decideCluster(image, wish))
      .finally(() => {
        this.#isNaming = false;
      });
  }
}
