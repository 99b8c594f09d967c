// metadata.version: raised only, only when everybody knows it, and a build that does not know it stops (D-31).
import { describe, expect, test } from "vitest";
import { assertVersionKnown, decodeCommand, encodeCommand } from "../../src/metadata/codec.ts";
import { decideMetadataVersion } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import { SUPPORTED_METADATA_VERSIONS } from "../../src/metadata/records.ts";
import { History, node } from "./support.ts";

const OLD_BUILD = { min: 1, max: 1 };

describe("raising metadata.version", () => {
  test("this build supports 1 and 2", () => {
    expect(SUPPORTED_METADATA_VERSIONS).toEqual({ min: 1, max: 2 });
  });

  test("is refused downwards, and beyond what this build knows", () => {
    const history = History.started([1], 2);
    const raise = (version: number) => decideMetadataVersion(history.image, { version });
    expect(raise(2)).toEqual({ kind: "records", records: [] });
    for (const version of [1, 0, -1, 2.5, Number.NaN])
      expect(raise(version)).toMatchObject({ kind: "refused", error: "INVALID_UPDATE_VERSION" });
    expect(raise(3)).toMatchObject({ error: "UNSUPPORTED_VERSION", message: expect.stringContaining("up to 2") });
    expect(decideMetadataVersion(new MetadataImage(), { version: 1 })).toMatchObject({ error: "BROKER_NOT_AVAILABLE" });
  });

  test("a rolling upgrade: not before the last registered broker, fenced ones included, runs the newer build", () => {
    const history = History.started([]);
    for (const nodeId of [3, 1, 2]) history.join(nodeId, { metadataVersions: OLD_BUILD });
    const raise = () => decideMetadataVersion(history.image, { version: 2 });
    history.fence(2);
    for (const nodeId of [1, 3]) history.join(nodeId);
    expect(raise()).toMatchObject({
      error: "UNSUPPORTED_VERSION",
      message: "metadata.version 2: node 2 knows 1 to 1; upgrade it first",
    });
    history.register(2);
    expect(history.take(raise())).toEqual([{ type: "metadata-version", version: 1, metadataVersion: 2 }]);
    expect(history.image.metadataVersion).toBe(2);
    const downgraded = history.wishRegistration(2, { metadataVersions: OLD_BUILD });
    expect(downgraded).toMatchObject({ error: "UNSUPPORTED_VERSION" });
  });

  test("is refused while somebody votes who never registered: nobody knows its build", () => {
    const history = History.started([1, 2]);
    const raise = (...members: number[]) =>
      decideMetadataVersion(history.image, { version: 2, members: members.map(node) });
    expect(raise(3, 2, 4, 1)).toMatchObject({
      error: "UNSUPPORTED_VERSION",
      message: expect.stringMatching(/^metadata.version 2: node 3 votes and never registered/),
    });
    expect(history.take(raise(2, 1))).toHaveLength(1);
  });

  test("an old controller does not raise it past itself", () => {
    const history = History.started([1]);
    expect(decideMetadataVersion(history.image, { version: 2, supported: OLD_BUILD })).toMatchObject({
      error: "UNSUPPORTED_VERSION",
    });
  });

  test("going down, or a record of a version that is not finalised, does not fit", () => {
    const history = History.started([1]);
    const { brokerEpoch } = history.broker(1);
    const record = { type: "fence-broker", version: 2, nodeId: node(1), brokerEpoch, reason: "session" } as const;
    expect(() => encodeCommand([record], 1)).toThrow(/fence-broker 2 at metadata.version 1/);
    expect(() => history.force(record)).toThrow(/fence-broker 2 at metadata.version 1/);
    const again = History.started([1], 2);
    expect(() => again.force({ type: "metadata-version", version: 1, metadataVersion: 2 })).toThrow(/is 2 already/);
  });
});

describe("a build that knows metadata.version 1 only", () => {
  const refusal = (what: RegExp) =>
    expect.objectContaining({ code: "DATA_DIR_NEWER", message: expect.stringMatching(what) });

  test("reads every command and snapshot until the version is raised", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 2 });
    history.fence(1);
    history.entries.forEach((entry, index) => {
      if (entry !== null) expect(decodeCommand(entry, index, OLD_BUILD).length).toBeGreaterThan(0);
    });
    const loaded = MetadataImage.load(history.image.encode(), OLD_BUILD);
    expect(loaded.stateHash()).toBe(history.image.stateHash());
  });

  test("stops by name at the raise, at a newer record, at a newer snapshot and at a cluster that began newer", () => {
    const history = History.started([1]);
    history.take(decideMetadataVersion(history.image, { version: 2 }));
    const raise = history.entries.at(-1) as Uint8Array;
    expect(() => decodeCommand(raise, 7, OLD_BUILD)).toThrow(refusal(/metadata.version 2, known up to 1/));
    history.fence(1);
    const fence = history.entries.at(-1) as Uint8Array;
    expect(() => decodeCommand(fence, 8, OLD_BUILD)).toThrow(refusal(/record "fence-broker", version 2/));
    expect(() => MetadataImage.load(history.image.encode(), OLD_BUILD)).toThrow(refusal(/format version 2/));
    const first = History.started([], 2).entries[1] as Uint8Array;
    expect(() => decodeCommand(first, 1, OLD_BUILD)).toThrow(refusal(/metadata.version 2/));
  });

  test("knows from a log that is not applied yet that the version was raised, and from nothing else", () => {
    const history = History.started([1, 2]);
    history.create("metadata-version", { partitions: 2 });
    history.take(decideMetadataVersion(history.image, { version: 2 }));
    const commands = history.entries.map((bytes, index) => ({ bytes, index })).filter(({ bytes }) => bytes !== null);
    const look = ({ bytes, index }: (typeof commands)[number], supported = OLD_BUILD) =>
      assertVersionKnown(bytes as Uint8Array, index, supported);
    for (const command of commands.slice(0, -1)) look(command);
    const [raise] = commands.slice(-1) as [(typeof commands)[number]];
    expect(() => look(raise)).toThrow(refusal(/metadata.version 2, known up to 1/));
    look(raise, SUPPORTED_METADATA_VERSIONS);
  });

  test("both read the same image out of the same log", () => {
    const history = History.started([1, 2]);
    history.create("a", { partitions: 3 });
    history.fence(2);
    const older = new MetadataImage();
    history.entries.forEach((entry, index) => {
      if (entry === null) older.skip(index);
      else older.apply(index, decodeCommand(entry, index, OLD_BUILD));
    });
    expect(older.encode()).toEqual(history.image.encode());
    expect(older.stateHash()).toBe(history.image.stateHash());
  });
});
