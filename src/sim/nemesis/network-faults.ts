// Faults of the network: cut connections (N2), late bytes (N3), partitions (N4), slow links (N5).
import type { LinkQuality } from "../pipe.ts";
import { drawPartition, SHAPES, type Shape } from "../partition-shapes.ts";
import type { Ground } from "./ground.ts";

const PARTITION_MS = { least: 100, most: 15_000 };

export class NetworkFaults {
  readonly #ground: Ground;

  constructor(ground: Ground) {
    this.#ground = ground;
    const { faults } = ground.swarm;
    ground.every(faults.cutMs, "cut", () => this.#cut());
    ground.every(faults.lateBytesMs, "late bytes", () => this.#delay());
    ground.every(faults.partitionMs, "partition", () => this.#partition());
    ground.every(faults.slowLinkMs, "slow link", () => this.#slowLink());
  }

  #cut(): void {
    const { rng, network, world } = this.#ground;
    const cut = rng.pick(["both", "one", "silent"] as const);
    if (!network.cutOne(cut)) return;
    world.countFault(`N2 cut, ${cut === "both" ? "both ends told" : cut === "one" ? "one end told" : "silent"}`);
  }

  #delay(): void {
    if (this.#ground.network.delayOne()) this.#ground.world.countFault("N3 late bytes");
  }

  #partition(): void {
    const { rng, network, world, cluster, clients } = this.#ground;
    const shape: Shape = cluster.isSingle ? "clients only" : rng.pick(SHAPES);
    const nodes = cluster.nodes.map(({ name }) => name);
    const directions = drawPartition(rng, shape, { nodes, clients, controller: cluster.controller?.name });
    if (directions.length === 0) return;
    const lastsMs = PARTITION_MS.least * (PARTITION_MS.most / PARTITION_MS.least) ** (rng.u32() / 2 ** 32);
    world.countFault(`N4 partition: ${shape}`);
    world.note("", "partition", `${shape} ${directions.map(([from, to]) => `${from}>${to}`).join(" ")}`);
    for (const [from, to] of directions) network.cut(from, to);
    this.#ground.later(lastsMs, "partition ends", () => {
      for (const [from, to] of directions) network.mend(from, to);
    });
  }

  /** All paths, or those of one machine, or one. */
  #slowLink(): void {
    const { rng, network, world, swarm, cluster, clients } = this.#ground;
    const slow: LinkQuality = {
      delayMs: swarm.link.delayMs * rng.between(2, 40),
      bandwidth: rng.between(5, 200),
      windowBytes: 4096,
    };
    const machines = [...cluster.nodes.map(({ name }) => name), ...clients];
    const [one, another] = [rng.pick(machines), rng.pick(machines)];
    const extent = rng.pick(["all", "machine", "path"] as const);
    world.countFault(`N5 slow link: ${extent}`);
    const lastsMs = rng.between(200, 3000);
    if (extent === "all") {
      network.setLink(slow);
      this.#ground.later(lastsMs, "link is fast again", () => network.setLink(swarm.link));
      return;
    }
    const paths = machines.flatMap((other) => [network.path(one, other), network.path(other, one)]);
    const some = extent === "machine" ? paths : [network.path(one, another)];
    for (const path of some) path.setQuality(slow);
    this.#ground.later(lastsMs, "link is fast again", () => {
      for (const path of some) path.setQuality(undefined);
    });
  }
}
