// A stopped node made the only voter: from its own disk alone it elects itself and commits all that its log holds.
import { expect, test } from "vitest";
import { createRng } from "../../src/base/rng.ts";
import { decodeConfiguration, encodeConfiguration, restoredStateOf } from "../../src/broker/quorum/codec.ts";
import type { ClusterId } from "../../src/model/ids.ts";
import { RaftNode } from "../../src/raft/raft-node.ts";
import { DEFAULT_SETTINGS } from "../../src/raft/settings.ts";
import { type ReplicaId, toReplicaId } from "../../src/raft/types.ts";
import { DROP_ALL } from "../../src/sim/disk-image.ts";
import type { StoredEntry } from "../../src/storage/raft-types.ts";
import { openStoppedNode, rewriteForUnsafeRecovery } from "../../src/storage/unsafe-recovery.ts";
import { MemoryFiles } from "./memory-files.ts";
import { append, freshFiles, openRaft, textOf, vote, writeOf } from "./raft-support.ts";
import { makeDeps, openStore } from "./support.ts";

const CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ" as ClusterId;
const OTHERS = ["2:BBBBBBBBBBBBBBBBBBBBBA", "3:CCCCCCCCCCCCCCCCCCCCCA"] as ReplicaId[];
const options = { directory: "/data", segmentBytes: 1 << 20 };
const COMMAND = new Uint8Array([7, 7, 7]);

const open = (files: MemoryFiles) => openStoppedNode(makeDeps(files), options);

/** A node of a cluster of three that has followed until the others were lost. */
async function survivor() {
  const files = await freshFiles();
  const logs = await openStore(files);
  await logs.adoptCluster(CLUSTER);
  const self = toReplicaId(logs.identity.nodeId, logs.identity.directoryId);
  await logs.close();
  const bytes = encodeConfiguration({ voters: [self, ...OTHERS].toSorted(), learners: [] }, CLUSTER);
  const store = await openRaft(files);
  const commands: StoredEntry[] = [1, 2, 3].map((index) => ({
    index,
    term: 2,
    kind: "command",
    bytes: new Uint8Array(9),
  }));
  await append(store, [{ index: 0, term: 1, kind: "configuration", bytes }, ...commands]);
  await store.write(writeOf({ hardState: vote(5, OTHERS[0] ?? null) }));
  await store.close();
  return { files: new MemoryFiles(files.image), self };
}

test("the survivor's log goes on in a new term with itself as the only voter, and it elects itself", async () => {
  const { files, self } = await survivor();
  const node = await open(files);
  expect(node.identity).toMatchObject({ clusterId: CLUSTER, nodeId: 1 });
  const before = textOf(node.store.restored.log.entries);
  const entry = await rewriteForUnsafeRecovery(
    node.store,
    encodeConfiguration({ voters: [self], learners: [] }, CLUSTER),
    COMMAND,
  );
  expect([entry.index, entry.term]).toEqual([4, 6]);
  files.kill();
  files.image.crash(DROP_ALL);

  const { restored } = await openRaft(new MemoryFiles(files.image));
  expect(restored.hardState).toEqual(vote(6));
  expect(textOf(restored.log.entries.slice(0, 4))).toEqual(before);
  expect(restored.log.entries[5]).toEqual({ index: 5, term: 6, kind: "command", bytes: COMMAND });
  expect(decodeConfiguration(entry.bytes, "here").voters).toEqual([self]);

  const core = new RaftNode(
    { rng: createRng(1) },
    { self, settings: DEFAULT_SETTINGS, restored: restoredStateOf(restored) },
  );
  for (let tick = 0; tick < 1000 && core.log.commitEnd < 7; tick++) {
    core.tick();
    for (let ready = core.ready(); ready !== null; ready = core.ready()) {
      if (ready.write !== null) core.advance({ id: ready.write.id, stage: "durable" });
      const last = ready.committed.at(-1);
      if (last !== undefined) core.applied(last.index + 1);
    }
  }
  expect([core.role, core.configuration.voters, core.log.commitEnd]).toEqual(["leader", [self], 7]);
});

test("a running node, an empty one and a foreign directory are refused", async () => {
  const { files } = await survivor();
  const running = await open(files);
  await expect(open(files)).rejects.toMatchObject({ code: "DATA_DIR_LOCKED" });
  await running.close();
  await (await open(files)).close();

  const empty = await freshFiles();
  await (await openStore(empty)).close();
  const node = await open(empty);
  const refused = rewriteForUnsafeRecovery(node.store, new Uint8Array(1), COMMAND);
  await expect(refused).rejects.toMatchObject({ code: "INVALID_REQUEST" });
  await node.close();

  const foreign = await freshFiles();
  await expect(open(foreign)).rejects.toMatchObject({ code: "DATA_DIR_FOREIGN" });
});
