// Failpoints: nobody is told of one unless he asks, and every one of the list is reached by what a cluster does.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../src/base/failpoint-names.ts";
import { failpoint, onFailpoint } from "../../src/base/failpoint.ts";
import { createSimHost } from "../../scripts/sim-host.ts";
import { runSeed } from "../../src/sim/run-seed.ts";
import { append, entriesOf, freshFiles, openRaft, writeOf } from "../storage/raft-support.ts";

afterEach(() => onFailpoint(null));

const SRC = join(import.meta.dirname, "../../src");

describe("failpoints", () => {
  it("do nothing but for who asks", () => {
    failpoint("journal-synced");
    const reached: string[] = [];
    onFailpoint((name) => void reached.push(name));
    failpoint("journal-synced");
    onFailpoint(null);
    failpoint("journal-synced");
    expect(reached).toEqual(["journal-synced"]);
  });

  it("stand at one place each, under the names of the list", () => {
    const files = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".ts"));
    const used = files.flatMap((path) => {
      const text = readFileSync(join(SRC, path), "utf8").replace(/^\s*\/\/.*$/gm, "");
      return [...text.matchAll(/\bfailpoint\("([^"]+)"\)/g)].map(([, name]) => name);
    });
    expect(new Set(used)).toEqual(new Set(Object.keys(FAILPOINTS)));
    expect(used).toHaveLength(Object.keys(FAILPOINTS).length);
  });

  it("are all reached by a cluster that is killed and loses power, and by a log that is cut", async () => {
    const reached = new Set<string>();
    onFailpoint((name) => void reached.add(name));
    const store = await openRaft(await freshFiles());
    await append(store, entriesOf(0, 3, 1));
    await store.write(writeOf({ cutSuffixTo: 1, entries: entriesOf(1, 2, 2) }));
    expect([...reached].toSorted()).toEqual([
      "metadata-cut",
      "metadata-rolled",
      "metadata-synced",
      "metadata-written",
      "state-one-slot",
    ]);
    const host = await createSimHost();
    const options = { host, codecs: host.codecs, baseConfig: host.baseConfig };
    const missing = () => Object.keys(FAILPOINTS).filter((name) => !reached.has(name));
    // The first one has all of them; a change of the code may move that.
    for (const seed of [18, 22, 13]) {
      if (missing().length === 0) break;
      const { violations } = await runSeed(seed, { ...options, adjust: (swarm) => ({ ...swarm, safetyMs: 6_000 }) });
      expect(violations).toEqual([]);
    }
    expect(missing()).toEqual([]);
  });
});
