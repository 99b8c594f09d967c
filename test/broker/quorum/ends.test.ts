// Whatever is asked of the nodes of a quorum at once, and whatever their disks and connections do meanwhile: everything that waits is told, with the
// right certainty, and a close ends (D-13, D-19, Q-18).
import { expect, test } from "vitest";
import type { Decision } from "../../../src/metadata/controller.ts";
import type { Rng } from "../../../src/base/rng.ts";
import { QuorumCluster, type QuorumNode, registers } from "./support.ts";

const SEEDS = Number(process.env["ENDS_SEEDS"] ?? 8);
const FROM = Number(process.env["ENDS_FROM"] ?? 1);
const STEPS = 70;
/** The longest that anything may wait once nothing new happens: a change of the members, or a disk that is full. */
const END_MS = 20_000;
const FIRST_ID = 10;
/** These say that nothing was done. */
const NOT_DONE: ReadonlySet<string> = new Set(["NOT_CONTROLLER", "BUSY", "STORAGE_FULL", "BROKER_NOT_AVAILABLE"]);
const EXPECTED_FAILURES: ReadonlySet<string> = new Set(["DISK_FAILED"]);

class Life {
  readonly cluster: QuorumCluster;
  readonly faults: string[] = [];
  readonly #rng: Rng;
  readonly #waiting = new Map<number, string>();
  readonly #decided = new Map<number, Decision>();
  readonly #closed = new Set<QuorumNode>();
  #nextId = FIRST_ID;
  #nextCall = 0;

  constructor(seed: number) {
    this.cluster = new QuorumCluster({
      seed,
      nodes: [1, 2, 3, 4],
      listed: [1, 2, 3],
      snapshotBytes: 1_500,
      proposalsMax: 16,
      raft: { retainedEntries: 2, snapshotChunkBytes: 500 },
    });
    this.#rng = this.cluster.world.fork("ends");
  }

  async run(): Promise<void> {
    const { cluster } = this;
    await cluster.start();
    await cluster.controller();
    for (let step = 0; step < STEPS; step++) {
      for (let count = this.#rng.below(6); count >= 0; count--) this.#ask(this.#picked);
      if (this.#rng.chance(0.4)) this.#disturb(this.#rng.pick(cluster.nodes));
      await cluster.run(this.#rng.below(120));
    }
    await cluster.run(3_000);
    cluster.network.heal();
    await cluster.run(END_MS);
    this.#look("after the last request");
    for (const node of cluster.nodes) this.#close(node);
    for (const node of cluster.nodes) {
      this.#ask(node);
      this.#told(`${node.name} applied`, node.quorum.waitForApplied(node.quorum.image.endOffset + 1));
    }
    await cluster.run(END_MS);
    this.#look("after the close");
  }

  /** Most of all whoever decides. */
  get #picked(): QuorumNode {
    const { controllers, nodes } = this.cluster;
    return this.#rng.pick(controllers.length > 0 && this.#rng.chance(0.8) ? controllers : nodes);
  }

  /** Counts what was asked until it is told, one way or another. */
  #told(what: string, work: Promise<unknown>): void {
    const call = this.#nextCall++;
    this.#waiting.set(call, what);
    const end = (): boolean => this.#waiting.delete(call);
    work.then(end, end);
  }

  #ask(node: QuorumNode): void {
    const { quorum, name } = node;
    const { image } = quorum;
    switch (this.#rng.below(8)) {
      case 0:
        return this.#told(`${name} barrier`, quorum.barrier(this.#rng.chance(0.5)));
      case 1:
        return this.#told(`${name} applied`, quorum.waitForApplied(image.endOffset + this.#rng.below(3)));
      case 2:
        return this.#told(`${name} image`, quorum.waitForImage());
      case 3: {
        const { end, term } = { end: image.endOffset, term: quorum.status.term };
        const request = { start: end, startTerm: term, maxWaitMs: 300, maxBytes: 4_000, nodeId: node.id };
        const whole = { ...request, clusterId: quorum.clusterId ?? "", snapshotEnd: -1, snapshotPosition: 0 };
        return this.#told(`${name} pull`, quorum.fetchMetadata(whole as Parameters<typeof quorum.fetchMetadata>[0]));
      }
      default:
        return this.#propose(node);
    }
  }

  #propose({ quorum, name }: QuorumNode): void {
    const id = this.#nextId++;
    const source = this.#rng.chance(0.3) ? undefined : `client ${this.#rng.below(3)}`;
    const work = quorum.propose(registers(id), source).then((decision) => {
      this.#decided.set(id, decision);
      const isHere = decision.kind === "records" && !this.#isApplied(name, id);
      if (isHere) this.faults.push(`${name} told that ${id} is applied, and it is not`);
    });
    this.#told(`${name} change ${id}`, work);
  }

  #isApplied(name: string, id: number): boolean {
    return this.cluster.nodes.some((node) => node.name === name && node.quorum.image.broker(id as never) !== undefined);
  }

  #disturb(node: QuorumNode): void {
    const { cluster } = this;
    const { faults } = node.machine.disk;
    const other = this.#rng.pick(cluster.nodes.filter((candidate) => candidate !== node));
    switch (this.#rng.below(12)) {
      case 0:
        if (this.#rng.chance(0.1)) faults.failingSyncs = 1;
        return;
      case 1:
        faults.foreignBytes = 2 ** 31;
        return this.#later(1_500, () => void (faults.foreignBytes = 0));
      case 2:
        faults.openFailures = 0.5;
        return this.#later(1_500, () => void (faults.openFailures = 0));
      case 3:
      case 4:
        faults.slowness = 100 + this.#rng.below(1_000);
        return this.#later(2_500, () => void (faults.slowness = 1));
      case 5:
        if (this.#rng.chance(0.05)) this.#close(node);
        return;
      case 6:
        return this.#change(node);
      case 7:
        for (const controller of cluster.controllers)
          this.#told(`${controller.name} transfer`, controller.quorum.transfer(node.id, 1_000));
        return;
      default:
        cluster.cut(node.id, other.id);
        return this.#later(2_500, () => cluster.mend(node.id, other.id));
    }
  }

  #change(node: QuorumNode): void {
    for (const controller of this.cluster.controllers) {
      const { voters } = controller.quorum.status;
      const isMember = voters.some((voter) => voter.nodeId === node.id);
      if (isMember && voters.length <= 3) continue;
      const wish = isMember
        ? ({ op: "remove", nodeId: node.id, directoryId: null } as const)
        : ({ op: "add", nodeId: node.id, directoryId: node.directoryId } as const);
      this.#told(`${controller.name} ${wish.op} ${node.name}`, controller.quorum.change(wish, 3_000));
    }
  }

  #close(node: QuorumNode): void {
    this.#closed.add(node);
    this.#told(`${node.name} close`, node.quorum.close());
  }

  #later(maxMs: number, act: () => void): void {
    this.cluster.world.schedule({ delayMs: 50 + this.#rng.below(maxMs), kind: "test" }, act);
  }

  #look(when: string): void {
    const isAlive = (what: string): boolean => {
      const node = this.cluster.nodes.find(({ name }) => what.startsWith(`${name} `));
      const isOpen = node !== undefined && node.failure === undefined && !this.#closed.has(node);
      // What is not there yet may come for as long as the node is there.
      return isOpen && (what.endsWith(" applied") || what.endsWith(" image"));
    };
    for (const what of this.#waiting.values()) if (!isAlive(what)) this.faults.push(`${when}: ${what} waits`);
    for (const { name, failure, refusal } of this.cluster.nodes)
      if (refusal !== undefined || !(failure === undefined || EXPECTED_FAILURES.has(failure.code)))
        this.faults.push(`${name}: ${refusal?.message ?? failure?.message}`);
    for (const [id, decision] of this.#decided) {
      const isSaidNotDone = decision.kind === "refused" && NOT_DONE.has(decision.error);
      const where = this.cluster.nodes.filter(({ name }) => this.#isApplied(name, id));
      if (isSaidNotDone && where.length > 0)
        this.faults.push(
          `${id} is not done (${decision.error}), and ${where.map(({ name }) => name).join(", ")} has it`,
        );
    }
  }

  get confirmed(): number {
    return [...this.#decided.values()].filter(({ kind }) => kind === "records").length;
  }
}

test("everything that is asked of a quorum ends, told what is true", async () => {
  let confirmed = 0;
  for (let seed = FROM; seed < FROM + SEEDS; seed++) {
    const life = new Life(seed);
    await life.run();
    expect(life.faults, `seed ${seed}`).toEqual([]);
    confirmed += life.confirmed;
  }
  expect(confirmed).toBeGreaterThan(SEEDS * 5);
});
