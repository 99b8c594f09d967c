// Cells find a cluster that has what they need, and no cluster has more of them than it may.
import { describe, expect, it } from "vitest";
import type { ClusterNeeds } from "../../src/chaos/faults/types.ts";
import { grouped, merged, nameOf } from "../../src/chaos/grouping.ts";

interface Cell {
  readonly name: string;
  readonly needs: ClusterNeeds;
}

const PLAIN: ClusterNeeds = {};
const SHIM: ClusterNeeds = { shim: true };
const CUT: ClusterNeeds = { place: "namespaces" };
const PROXY: ClusterNeeds = { place: "proxied" };
const SMALL: ClusterNeeds = { mounts: "tmpfs", mountBytes: 16 * 1024 * 1024 };

const cellsOf = (...needs: readonly ClusterNeeds[]): readonly Cell[] =>
  needs.map((each, index) => ({ name: String(index), needs: each }));

const namesOf = (cells: readonly Cell[], sharesClusters: boolean, cellsMax = 10): readonly (readonly string[])[] =>
  grouped(cells, { needsOf: ({ needs }) => needs, sharesClusters, cellsMax }).map((group) =>
    group.cells.map(({ name }) => name),
  );

describe("grouping", () => {
  it("gives each kind of cluster its own cells, in their order", () => {
    expect(namesOf(cellsOf(PLAIN, SHIM, PLAIN, CUT, SHIM), false)).toEqual([["0", "2"], ["1", "4"], ["3"]]);
  });

  it("puts together what goes together, and nothing else", () => {
    expect(namesOf(cellsOf(PLAIN, SHIM, CUT, PROXY, SMALL), true)).toEqual([["4"], ["0", "1", "2"], ["3"]]);
  });

  it("gives a shared cluster all that its cells need", () => {
    const [group] = grouped(cellsOf(PLAIN, SHIM, CUT), {
      needsOf: ({ needs }) => needs,
      sharesClusters: true,
      cellsMax: 10,
    });
    expect(group?.needs).toEqual({ place: "namespaces", shim: true });
  });

  it("cuts what is too much for one cluster, and leaves nothing out", () => {
    expect(namesOf(cellsOf(PLAIN, PLAIN, PLAIN, PLAIN, PLAIN), false, 2)).toEqual([["0", "1"], ["2", "3"], ["4"]]);
  });

  it("never gives a small file system to a cell that did not ask for it, nor one place to what needs another", () => {
    expect(merged(SMALL, SHIM)).toBeUndefined();
    expect(merged(CUT, PROXY)).toBeUndefined();
    expect(merged({ settings: { "segment.bytes": 1024 } }, PLAIN)).toBeUndefined();
  });

  it("names a kind by what is special about it", () => {
    expect(nameOf(PLAIN)).toBe("loopback");
    expect(nameOf({ ...CUT, shim: true })).toBe("namespaces, shim");
    expect(nameOf(SMALL)).toBe("loopback, tmpfs, 16 MiB");
  });
});
