// The shapes of a partitioned network (N4): which directions between which machines are cut.
import { assertNever } from "../base/assert.ts";
import type { Rng } from "../base/rng.ts";

export const SHAPES = [
  "isolate",
  "halves",
  "ring",
  "bridge",
  "one way",
  "pair",
  "controller only",
  "clients only",
] as const;
export type Shape = (typeof SHAPES)[number];

export type Direction = readonly [from: string, to: string];

export interface Machines {
  readonly nodes: readonly string[];
  readonly clients: readonly string[];
  /** The node that leads the quorum, where one does. */
  readonly controller: string | undefined;
}

/** Chance that a symmetric shape is cut in one direction alone, and that clients are on one of the sides. */
const ONE_WAY_CHANCE = 0.3;
const WITH_CLIENTS_CHANCE = 0.4;

type IsCut = (from: string, to: string) => boolean;

export function drawPartition(rng: Rng, shape: Shape, machines: Machines): readonly Direction[] {
  const { nodes, clients, controller } = machines;
  switch (shape) {
    case "isolate": {
      const one = rng.pick(nodes);
      const all = rng.chance(WITH_CLIENTS_CHANCE) ? [...nodes, ...clients] : nodes;
      return between(rng, all, (left, right) => left === one || right === one);
    }
    case "halves": {
      const all = rng.chance(WITH_CLIENTS_CHANCE) ? [...nodes, ...clients] : nodes;
      const side = new Set(all.filter(() => rng.chance(0.5)));
      return between(rng, all, (left, right) => side.has(left) !== side.has(right));
    }
    case "ring":
      return between(rng, nodes, ring(shuffled(rng, nodes)));
    case "bridge":
      return between(rng, nodes, bridge(shuffled(rng, nodes)));
    case "one way": {
      const one = rng.pick(nodes);
      const isDeaf = rng.chance(0.5);
      const all = rng.chance(WITH_CLIENTS_CHANCE) ? [...nodes, ...clients] : nodes;
      return directions(all, (from, to) => (isDeaf ? to : from) === one);
    }
    case "pair": {
      const [left, right] = shuffled(rng, nodes);
      return between(rng, nodes, (from, to) => (from === left && to === right) || (from === right && to === left));
    }
    case "controller only":
      return between(rng, nodes, (left, right) => left === controller || right === controller);
    case "clients only":
      return clientsOnly(rng, machines);
    default:
      return assertNever(shape);
  }
}

function directions(all: readonly string[], isCut: IsCut): Direction[] {
  return all.flatMap((from) => all.filter((to) => to !== from && isCut(from, to)).map((to): Direction => [from, to]));
}

/** Of each cut pair both directions; in some partitions of each only one, by a coin. */
function between(rng: Rng, all: readonly string[], isCut: IsCut): Direction[] {
  const cut = directions(all, isCut);
  if (!rng.chance(ONE_WAY_CHANCE)) return cut;
  const pairs = cut.filter(([from, to]) => from < to);
  return pairs.map(([from, to]) => (rng.chance(0.5) ? [from, to] : [to, from]));
}

/** Each sees a majority, no two the same one; three nodes in a chain. */
function ring(places: readonly string[]): IsCut {
  const count = places.length;
  const sees = Math.ceil(Math.floor(count / 2) / 2);
  return (left, right) => {
    const [from, to] = [places.indexOf(left), places.indexOf(right)];
    if (count <= 3) return Math.abs(from - to) === count - 1;
    const distance = Math.abs(from - to);
    return Math.min(distance, count - distance) > sees;
  };
}

/** Two sides that both see the one in the middle. */
function bridge(places: readonly string[]): IsCut {
  const middle = places.length >> 1;
  return (left, right) => {
    const [from, to] = [places.indexOf(left), places.indexOf(right)];
    return from !== middle && to !== middle && from < middle !== to < middle;
  };
}

function clientsOnly(rng: Rng, { nodes, clients }: Machines): Direction[] {
  const isOneClient = rng.chance(0.5);
  const some = isOneClient ? [rng.pick(clients)] : clients;
  const far = isOneClient ? nodes : [rng.pick(nodes)];
  return between(rng, [...some, ...far], (left, right) => some.includes(left) !== some.includes(right));
}

function shuffled(rng: Rng, all: readonly string[]): string[] {
  const order = [...all];
  for (let at = order.length - 1; at > 0; at--) {
    const other = rng.below(at + 1);
    [order[at], order[other]] = [order[other] ?? "", order[at] ?? ""];
  }
  return order;
}
