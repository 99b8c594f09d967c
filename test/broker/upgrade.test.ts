// Rolling upgrade (D-31): a newer build beside older ones writes nothing that they do not know, until metadata.version is raised by command; from
// then on an older build is refused by name and its disk is left as it is.
import { beforeAll, describe, expect, it } from "vitest";
import type { MetadataRecord } from "../../src/metadata/records.ts";
import type { SimDisk } from "../../src/sim/disk.ts";
import { changedFiles, filesOf, Fleet, type FleetClient, Load } from "./fleet.ts";

const OLD = { min: 1, max: 1 };
const NEW = { min: 1, max: 2 };
const NODES = [1, 2, 3];
/** With an observer. */
const ALL = [...NODES, 4];

const fences = (records: readonly MetadataRecord[]) => records.filter(({ type }) => type === "fence-broker");
const versionsOf = (records: readonly MetadataRecord[]) => new Set(fences(records).map(({ version }) => version));

async function kill(fleet: Fleet, nodeId: number): Promise<void> {
  fleet.node(nodeId).crash("process death");
  const other = NODES.find((id) => id !== nodeId) ?? 0;
  await fleet.until(`node ${nodeId} is fenced`, async () => (await fleet.fenced(other)).includes(nodeId));
}

async function recordsOf(fleet: Fleet, nodeId: number): Promise<MetadataRecord[]> {
  await fleet.node(nodeId).stop();
  const records = await fleet.node(nodeId).metadataRecords();
  await fleet.settle(fleet.node(nodeId).begin());
  return records;
}

describe("a rolling upgrade of three voters and an observer under load", () => {
  let fleet: Fleet;
  let who: FleetClient;
  let load: Load;

  beforeAll(async () => {
    fleet = await new Fleet({ metadataVersions: OLD, nodes: 4, voters: 3 }).start();
    who = await fleet.open("load");
    load = new Load(who, { topic: "steady", partitions: 6 });
    await load.begin();
  });

  const quorum = () => fleet.settle(who.admin.describeQuorum());
  const raise = (version: number) => fleet.settle(who.admin.raiseMetadataVersion(version));

  it("begins at the version that the founders know, and says which one that is", async () => {
    expect(await quorum()).toMatchObject({ metadataVersion: 1, supportedVersions: OLD });
    const refusal = await who.refused(who.admin.raiseMetadataVersion(2));
    expect(refusal.code).toBe("UNSUPPORTED_VERSION");
    expect(refusal.message).toBe("metadata.version 2: the controller knows up to 1");
  });

  it("takes one node after the other; the raise is refused by the name of the node that is behind; nothing acknowledged is lost", async () => {
    for (const nodeId of ALL) {
      await fleet.restart(nodeId, { metadataVersions: NEW });
      await fleet.run(1_000);
      const behind = ALL.filter((id) => id > nodeId);
      const { supportedVersions } = await quorum();
      if (behind.length === 0) break;
      const refusal = await who.refused(who.admin.raiseMetadataVersion(2));
      expect(refusal.code).toBe("UNSUPPORTED_VERSION");
      const isOldController = supportedVersions.max === 1;
      const wording = isOldController
        ? "the controller knows up to 1"
        : `node ${behind[0]} knows 1 to 1; upgrade it first`;
      expect(refusal.message).toBe(`metadata.version 2: ${wording}`);
    }
    expect(await quorum()).toMatchObject({ metadataVersion: 1, supportedVersions: NEW });
    expect(load.errors.map(({ code, message }) => `${code}: ${message}`)).toEqual([]);
  });

  it("goes back, too: a node is taken down to the older build, and up again, while the version is not raised", async () => {
    await fleet.restart(2, { metadataVersions: OLD });
    await fleet.run(1_000);
    const refusal = await who.refused(who.admin.raiseMetadataVersion(2));
    expect(refusal.code).toBe("UNSUPPORTED_VERSION");
    await fleet.restart(2, { metadataVersions: NEW });
    await kill(fleet, 3);
    await fleet.settle(fleet.node(3).begin());
    expect(load.acknowledged.size).toBeGreaterThan(100);
    expect(load.created.size).toBeGreaterThan(20);
  });

  it("every build wrote records of version 1 only", async () => {
    const records = await recordsOf(fleet, 1);
    expect(fences(records).length).toBeGreaterThan(4);
    expect(versionsOf(records)).toEqual(new Set([1]));
  });

  it("the raise is refused by name while one registered broker is behind, also one that is away", async () => {
    await fleet.restart(3, { metadataVersions: OLD });
    await kill(fleet, 3);
    const refusal = await who.refused(who.admin.raiseMetadataVersion(2));
    expect([refusal.code, refusal.outcome]).toEqual(["UNSUPPORTED_VERSION", undefined]);
    fleet.change(3, { metadataVersions: NEW });
    await fleet.settle(fleet.node(3).begin());
  });

  it("is raised once all know it; every node says so; twice is once, and down never", async () => {
    await raise(2);
    await raise(2);
    await fleet.sameImages(ALL);
    expect(await quorum()).toMatchObject({ metadataVersion: 2 });
    const refusal = await who.refused(who.admin.raiseMetadataVersion(1));
    expect(refusal.code).toBe("INVALID_UPDATE_VERSION");
    const beyond = await who.refused(who.admin.raiseMetadataVersion(3));
    expect(beyond.code).toBe("UNSUPPORTED_VERSION");
  });

  it("from then on records of version 2 are written, and applied by all", async () => {
    await kill(fleet, 3);
    await fleet.settle(fleet.node(3).begin());
    await fleet.sameImages(ALL);
    for (const nodeId of NODES) {
      const records = await recordsOf(fleet, nodeId);
      const raised = records.findIndex(({ type }) => type === "metadata-version");
      expect(versionsOf(records.slice(0, raised)), `node ${nodeId}`).toEqual(new Set([1]));
      expect(versionsOf(records.slice(raised)), `node ${nodeId}`).toEqual(new Set([2]));
      expect(fences(records.slice(raised))).toContainEqual(expect.objectContaining({ nodeId: 3, reason: "refused" }));
    }
  });

  it("a broker of the older build that comes back is refused by name; what its disk holds stays as it is, and the newer build takes it up", async () => {
    await fleet.node(3).stop();
    const { disk } = fleet.node(3);
    const before = kept(disk);
    fleet.change(3, { metadataVersions: OLD });
    const refusal = await fleet.refusalOf(3);
    expect(refusal.code).toBe("DATA_DIR_NEWER");
    expect(refusal.message).toMatch(
      /^metadata entry \d+ \(metadata\.version 2, known up to 1\) was written by a newer/,
    );
    expect(before.size).toBeGreaterThan(10);
    expect(changedFiles(before, kept(disk))).toEqual([]);
    fleet.change(3, { metadataVersions: NEW });
    await fleet.settle(fleet.node(3).begin());
    await fleet.sameImages(ALL);
  });

  it("nothing that was acknowledged is lost, nothing that was refused is there", async () => {
    await load.end();
    expect(load.acknowledged.size).toBeGreaterThan(100);
    expect(await load.lost()).toEqual([]);
    for (const node of fleet.nodes) expect(node.fatal).toEqual([]);
  });
});

/** All but the books of starts and stops (checkpoints, the emptied journal, counters), which both builds keep. */
function kept(disk: SimDisk): Map<string, Uint8Array> {
  const isBook = (path: string) => /^\/data\/(checkpoint\/|journal\/|superblock$|metadata\/quorum-state$)/.test(path);
  return new Map([...filesOf(disk, "/data")].filter(([path]) => !isBook(path)));
}

describe("snapshots in a rolling upgrade", () => {
  const snapshotsOf = (fleet: Fleet, nodeId: number) =>
    [...filesOf(fleet.node(nodeId).disk, "/data/metadata")].filter(([path]) => path.includes("snapshot"));
  /** The format version of the newest. */
  const formatOf = (fleet: Fleet, nodeId: number) => {
    const [, bytes] = snapshotsOf(fleet, nodeId).at(-1) ?? [];
    const text = new TextDecoder("latin1").decode(bytes);
    return Number(/"type":"metadata-image","version":(\d+)/.exec(text)?.[1]);
  };
  const start = async (versions: typeof OLD, nodes = 3) => {
    const fleet = new Fleet({
      nodes,
      voters: 3,
      metadataVersions: versions,
      config: { "metadata.log.max.record.bytes.between.snapshots": "4KiB" },
      raftSettings: { retainedEntries: 0 },
    });
    await fleet.settle(Promise.all(NODES.map((nodeId) => fleet.node(nodeId).begin())));
    return fleet;
  };
  const grow = async (fleet: Fleet, prefix: string, up = NODES) => {
    const who = await fleet.open(prefix, up);
    for (let number = 0; number < 40; number++)
      await fleet.settle(who.admin.createTopic(`${prefix}-${number}`, { partitions: 2 }));
    await fleet.sameImages(up);
    await fleet.run(2_000);
    return who;
  };

  it("a newer build writes the older format until the raise: the older one starts from it; then the newer format, which the older one refuses by name", async () => {
    const fleet = await start(OLD);
    for (const nodeId of NODES) await fleet.restart(nodeId, { metadataVersions: NEW });
    const who = await grow(fleet, "before");
    for (const nodeId of NODES) expect(formatOf(fleet, nodeId), `node ${nodeId}`).toBe(1);
    await kill(fleet, 2);
    await fleet.settle(fleet.node(2).begin());
    await fleet.restart(2, { metadataVersions: OLD });
    await fleet.sameImages(NODES);
    await fleet.restart(2, { metadataVersions: NEW });

    await fleet.settle(who.admin.raiseMetadataVersion(2));
    await kill(fleet, 2);
    await grow(fleet, "after", [1, 3]);
    await fleet.settle(fleet.node(2).begin());
    await fleet.sameImages(NODES);
    expect(formatOf(fleet, 1)).toBe(2);
    // From its own snapshot as from one that a leader sends: the same image.
    await fleet.restart(1);
    await fleet.sameImages(NODES);

    await fleet.node(1).stop();
    const before = kept(fleet.node(1).disk);
    fleet.change(1, { metadataVersions: OLD });
    const refusal = await fleet.refusalOf(1);
    expect(refusal.code).toBe("DATA_DIR_NEWER");
    expect(changedFiles(before, kept(fleet.node(1).disk))).toEqual([]);
    fleet.change(1, { metadataVersions: NEW });
    await fleet.settle(fleet.node(1).begin());
    await fleet.sameImages(NODES);
  });

  it("an observer of the older build is refused by name, whether it is brought entries or a snapshot", async () => {
    const fleet = await start(NEW, 4);
    fleet.change(4, { metadataVersions: OLD });
    const byEntry = await fleet.refusalOf(4);
    expect([byEntry.code, byEntry.message]).toEqual([
      "DATA_DIR_NEWER",
      "metadata entry 2 (metadata.version 2, known up to 1) was written by a newer build",
    ]);
    await grow(fleet, "more");
    const before = filesOf(fleet.node(4).disk, "/data/metadata");
    const bySnapshot = await fleet.refusalOf(4);
    expect([bySnapshot.code, bySnapshot.message]).toEqual([
      "DATA_DIR_NEWER",
      "the metadata snapshot (format version 2) was written by a newer build",
    ]);
    const after = filesOf(fleet.node(4).disk, "/data/metadata");
    expect(changedFiles(before, after)).toEqual(["/data/metadata/quorum-state"]); // counts the start
    fleet.change(4, { metadataVersions: NEW });
    await fleet.settle(fleet.node(4).begin());
    await fleet.sameImages([1, 2, 3, 4]);
  });
});

describe("a cluster that is taken down to a build that is too old", () => {
  it("each node says so by name, at once and without a quorum", async () => {
    const fleet = await new Fleet().start();
    const who = await fleet.open("admin");
    await fleet.settle(who.admin.createTopic("t"));
    expect(await fleet.settle(who.admin.describeQuorum())).toMatchObject({ metadataVersion: 2 });
    for (const nodeId of NODES) await fleet.node(nodeId).stop();
    for (const nodeId of NODES) {
      fleet.change(nodeId, { metadataVersions: OLD });
      expect((await fleet.refusalOf(nodeId)).code, `node ${nodeId}`).toBe("DATA_DIR_NEWER");
    }
    for (const nodeId of NODES) fleet.change(nodeId, { metadataVersions: NEW });
    await fleet.start();
    expect((await fleet.metadata(1)).topics.map(({ name }) => name)).toEqual(["t"]);
  });
});
