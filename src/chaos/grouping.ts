// Which cells share a cluster: those that need the same kind of one, or, where a plan wants few clusters, kinds that go together.
import type { ClusterNeeds } from "./faults/types.ts";

export interface Group<Cell> {
  readonly needs: ClusterNeeds;
  readonly cells: readonly Cell[];
}

export interface GroupOptions<Cell> {
  readonly needsOf: (cell: Cell) => ClusterNeeds;
  readonly sharesClusters: boolean;
  readonly cellsMax: number;
}

/** In the order of the first cell of each kind, cut into pieces of at most `cellsMax`. */
export function grouped<Cell>(cells: readonly Cell[], options: GroupOptions<Cell>): readonly Group<Cell>[] {
  const { needsOf, sharesClusters, cellsMax } = options;
  const groups: { needs: ClusterNeeds; readonly cells: Cell[] }[] = [];
  // The most demanding first: the others fit into their clusters.
  const ordered = sharesClusters
    ? [...cells].sort((one, other) => weightOf(needsOf(other)) - weightOf(needsOf(one)))
    : cells;
  for (const cell of ordered) {
    const needs = needsOf(cell);
    const fits = groups.find(
      (group) => (sharesClusters ? merged(group.needs, needs) : isSame(group.needs, needs)) !== undefined,
    );
    if (fits === undefined) groups.push({ needs, cells: [cell] });
    else {
      fits.needs = merged(fits.needs, needs) ?? fits.needs;
      fits.cells.push(cell);
    }
  }
  const position = new Map(cells.map((cell, index) => [cell, index]));
  const places = (cell: Cell): number => position.get(cell) ?? 0;
  return groups.flatMap(({ needs, cells: own }) => {
    const inOrder = own.sort((one, other) => places(one) - places(other));
    const pieces = Math.ceil(inOrder.length / cellsMax);
    return Array.from({ length: pieces }, (_, piece) => ({
      needs,
      cells: inOrder.slice(piece * cellsMax, (piece + 1) * cellsMax),
    }));
  });
}

const weightOf = ({ place, shim, mounts }: ClusterNeeds): number =>
  (mounts === undefined ? 0 : 4) + (place === undefined ? 0 : 2) + (shim === true ? 1 : 0);

const isSame = (one: ClusterNeeds, other: ClusterNeeds): true | undefined =>
  nameOf(one) === nameOf(other) ? true : undefined;

/** What serves both; undefined: nothing does. A small file system serves nobody who did not ask for it. */
export function merged(one: ClusterNeeds, other: ClusterNeeds): ClusterNeeds | undefined {
  const isSameDisk = one.mounts === other.mounts && one.mountBytes === other.mountBytes;
  const isSamePlace = one.place === undefined || other.place === undefined || one.place === other.place;
  const isSameSettings = JSON.stringify(one.settings ?? {}) === JSON.stringify(other.settings ?? {});
  if (!isSameDisk || !isSamePlace || !isSameSettings) return undefined;
  return { ...one, ...other, ...(one.shim === true || other.shim === true ? { shim: true } : {}) };
}

export function nameOf({ place = "loopback", shim, mounts, mountBytes }: ClusterNeeds): string {
  const parts: string[] = [place, ...(shim === true ? ["shim"] : []), ...(mounts === undefined ? [] : [mounts])];
  return [...parts, ...(mountBytes === undefined ? [] : [`${mountBytes / 1024 / 1024} MiB`])].join(", ");
}
