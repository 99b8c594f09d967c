// The image and its snapshots: order of entries, atomic commands, canonical bytes, refusal of damage.
import { describe, expect, test } from "vitest";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import { createRng } from "../../src/base/rng.ts";
import { OttlaError } from "../../src/model/errors.ts";
import {
  decideBrokerConfigs,
  decideNamedProducer,
  decideProducerIds,
  decideRemoval,
} from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import { REQUESTS_MAX } from "../../src/metadata/image-snapshot.ts";
import { History, faultsOf, node, topicIdOf, uuid } from "./support.ts";

const NAMED = { name: "n", producerId: -1, producerEpoch: -1, nowMs: 5, namesMax: 3, expirationMs: 1_000 };

/** A bit of everything that an image can hold. */
function rich(metadataVersion = 2): History {
  const history = History.started([2, 1, 3], metadataVersion);
  history.force({ type: "request", version: 1, requestId: uuid(77), topicId: topicIdOf(50) });
  history.create("b", { partitions: 3, configs: [{ key: "segment.bytes", value: "1MiB" }] });
  history.create("a", { partitions: 2 });
  history.create("gone", { partitions: 3, topicId: 50 });
  history.create("going", { partitions: 1 });
  for (const name of ["gone", "going"]) history.delete(name);
  history.fence(3);
  history.take(decideRemoval(history.image, topicIdOf(50), [node(1), node(2)]));
  const changes = [
    { key: "segment.bytes", value: "2MiB" },
    { key: "index.interval.bytes", value: "64" },
  ];
  history.take(decideBrokerConfigs(history.image, { nodeId: node(2), changes }));
  history.take(decideBrokerConfigs(history.image, { nodeId: null, changes: [{ key: "num.partitions", value: "7" }] }));
  history.take(decideProducerIds(history.image, { nodeId: node(1), brokerEpoch: history.broker(1).brokerEpoch }));
  for (const name of ["z", "a", "z"]) history.take(decideNamedProducer(history.image, { ...NAMED, name }).decision);
  return history;
}

describe("applying", () => {
  test("each index once, in order, commands and skipped entries alike", () => {
    const image = new MetadataImage();
    expect(() => image.skip(1)).toThrow(/expected index 0/);
    image.skip(0);
    expect(() => image.apply(0, [])).toThrow(/expected index 1/);
    image.skip(1);
    expect(image.endOffset).toBe(2);
    expect(image.metadataVersion).toBe(0);
  });

  test("D-20: nothing before the cluster record, and it only once", () => {
    const cluster = { type: "cluster", version: 1, clusterId: uuid(1), metadataVersion: 1, timestampMs: 1 } as const;
    expect(() =>
      new MetadataImage().apply(0, [{ type: "request", version: 1, requestId: uuid(1), topicId: null }]),
    ).toThrow(
      expect.objectContaining({ code: "DATA_DAMAGED", message: expect.stringContaining("request cannot stand here") }),
    );
    expect(() => new MetadataImage().apply(0, [cluster, cluster])).toThrow(/cluster cannot stand here/);
  });

  test("Q-18, Q-19: a command that does not fit as a whole leaves an image that nothing can be read out of", () => {
    const history = rich();
    const request = { type: "request", version: 1, requestId: uuid(78), topicId: null } as const;
    const unknown = { type: "delete-topic", version: 1, topicId: topicIdOf(999) } as const;
    expect(() => history.force(request, unknown)).toThrow(expect.objectContaining({ code: "DATA_DAMAGED" }));
    expect(() => history.image.encode()).toThrow(/half of a command/);
    expect(() => history.image.stateHash()).toThrow(/half of a command/);
    expect(() => history.skip()).toThrow(/applied in part/);
    expect(() => history.force(request)).toThrow(/applied in part/);
  });

  test("the last 1,024 requests are known, the oldest is forgotten first", () => {
    const history = History.started();
    for (let id = 0; id <= REQUESTS_MAX; id++)
      history.force({ type: "request", version: 1, requestId: uuid(10_000 + id), topicId: null });
    expect(history.image.requestOf(uuid(10_000))).toBeUndefined();
    for (let id = 1; id <= REQUESTS_MAX; id++)
      expect(history.image.requestOf(uuid(10_000 + id))).toEqual({ requestId: uuid(10_000 + id), topicId: null });
    const loaded = MetadataImage.load(history.image.encode());
    for (const image of [history.image, loaded])
      image.apply(image.endOffset, [{ type: "request", version: 1, requestId: uuid(9_999), topicId: null }]);
    expect(loaded.requestOf(uuid(10_001))).toBeUndefined();
    expect(loaded.encode()).toEqual(history.image.encode());
  });
});

/** One snapshot of each format version, as first written: only ever added to. */
const GOLDEN: readonly string[] = [
  '{"type":"metadata-image","version":1,"endOffset":9,"cluster":{"clusterId":"AAAAAAAAAAAAAAAAAAAD6A","metadataVersion":1,"createdMs":1},"brokers":[{"nodeId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAH0Q","incarnationId":"AAAAAAAAAAAAAAAAAAATiA","brokerEpoch":2,"confirmedEpoch":2,"restart":"clean","address":"host1:7070","metadataVersions":{"min":1,"max":2},"registeredMs":3,"isFenced":false},{"nodeId":2,"directoryId":"AAAAAAAAAAAAAAAAAAAH0g","incarnationId":"AAAAAAAAAAAAAAAAAAATiQ","brokerEpoch":4,"confirmedEpoch":null,"restart":"first","address":"","metadataVersions":{"min":1,"max":1},"registeredMs":-3,"isFenced":true}],"topics":[{"topicId":"AAAAAAAAAAAAAAAAAAAAAQ","name":"a","configs":{"max.message.bytes":1000,"segment.bytes":4096},"replicationFactor":1,"createdMs":7,"isDeleting":false,"partitions":[[[1],[1],[],1,1,0,0,-1],[[2],[],[2],1,null,3,4,-1],[[2],[],[],1,null,3,5,-1]]},{"topicId":"AAAAAAAAAAAAAAAAAAAAAw","name":"c","configs":{},"replicationFactor":2,"createdMs":7,"isDeleting":false,"partitions":[[[2,1],[1],[2],2,1,4,6,2]]}],"tombstones":[{"topicId":"AAAAAAAAAAAAAAAAAAAAAg","name":"b","owed":[1,2]}],"brokerConfigs":[{"nodeId":null,"configs":{"num.partitions":3}},{"nodeId":2,"configs":{"segment.bytes":2048}}],"requests":[{"requestId":"AAAAAAAAAAAAAAAAAAAACQ","topicId":null},{"requestId":"AAAAAAAAAAAAAAAAAAAACA","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}],"producerIds":{"nextId":3000,"nextNamedId":1099511627779,"named":[["billing",1099511627778,0,-1,-1,1700000000000],["mailer",1099511627776,7,1099511627776,6,-5]]}}',
  '{"type":"metadata-image","version":2,"endOffset":9,"cluster":{"clusterId":"AAAAAAAAAAAAAAAAAAAD6A","metadataVersion":2,"createdMs":1},"brokers":[{"nodeId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAH0Q","incarnationId":"AAAAAAAAAAAAAAAAAAATiA","brokerEpoch":2,"confirmedEpoch":2,"restart":"clean","address":"host1:7070","metadataVersions":{"min":1,"max":2},"registeredMs":3,"isFenced":true,"fencedFor":"shutdown"}],"topics":[],"tombstones":[],"brokerConfigs":[],"requests":[],"producerIds":{"nextId":0,"nextNamedId":1099511627776,"named":[]}}',
  '{"type":"metadata-image","version":1,"endOffset":3,"cluster":null,"brokers":[],"topics":[],"tombstones":[],"brokerConfigs":[],"requests":[],"producerIds":{"nextId":0,"nextNamedId":1099511627776,"named":[]}}',
];

describe("snapshots", () => {
  test.each(GOLDEN)("golden: %s", (text) => {
    const image = MetadataImage.load(utf8Encode(text));
    expect(utf8Decode(image.encode())).toBe(text);
    expect(faultsOf(image)).toEqual([]);
  });

  test.each([1, 2])("hold everything, byte for byte, at metadata.version %d", (version) => {
    const { image } = rich(version);
    const loaded = MetadataImage.load(image.encode());
    expect(loaded.encode()).toEqual(image.encode());
    expect(loaded.stateHash()).toBe(image.stateHash());
    expect(faultsOf(loaded)).toEqual([]);
    expect(loaded.topicNames).toEqual(["a", "b", "going"]);
    expect(loaded.requestOf(uuid(77))).toEqual({ requestId: uuid(77), topicId: topicIdOf(50) });
    expect(loaded.broker(node(3))?.fencedFor).toBe(version === 1 ? null : "session");
    expect(loaded.topicColliding("a")?.name).toBe("a");
    expect([...loaded.producerIds.named].map(({ name, producerEpoch }) => `${name} ${producerEpoch}`)).toEqual([
      "a 0",
      "z 1",
    ]);
  });

  test("an empty image is one too", () => {
    const image = new MetadataImage();
    expect(MetadataImage.load(image.encode()).stateHash()).toBe(image.stateHash());
  });

  test("do not depend on the order in which things came about", () => {
    const make = (names: readonly string[], nodes: readonly number[]): MetadataImage => {
      const history = new History();
      history.skip();
      const clusterId = uuid(1);
      history.force({ type: "cluster", version: 1, clusterId, metadataVersion: 1, timestampMs: 1 });
      const identity = {
        restart: "first",
        address: "x:1",
        metadataVersions: { min: 1, max: 1 },
        timestampMs: 1,
      } as const;
      const ids = (nodeId: number) => ({ directoryId: uuid(nodeId), incarnationId: uuid(nodeId) });
      const index = history.image.endOffset;
      history.force(
        ...nodes.map(
          (nodeId) =>
            ({ type: "register-broker", version: 1, nodeId: node(nodeId), ...ids(nodeId), ...identity }) as const,
        ),
        ...nodes.map(
          (nodeId) =>
            ({ type: "unfence-broker", version: 1, nodeId: node(nodeId), brokerEpoch: index as never }) as const,
        ),
        ...names.map((name) => {
          const topicId = topicIdOf(name.charCodeAt(0));
          const configs = name < "b" ? { "a.b": 1, "a.a": 2 } : {};
          const shape = { replicationFactor: 1, replicas: [[node(1)]], timestampMs: 1 };
          return { type: "topic", version: 1, topicId, name, configs, ...shape } as const;
        }),
      );
      return history.image;
    };
    const left = make(["a", "b", "c"], [1, 2, 3]);
    const right = make(["c", "a", "b"], [3, 1, 2]);
    expect(utf8Decode(right.encode())).toBe(utf8Decode(left.encode()));
    expect(right.stateHash()).toBe(left.stateHash());
  });

  test("the hash tells any change", () => {
    const history = rich();
    const hashes = [history.image.stateHash()];
    const steps = [
      () => history.fence(1),
      () => history.unfence(1),
      () => history.skip(),
      () => history.create("c"),
      () => history.delete("c"),
      () => history.register(2),
      () =>
        history.take(decideProducerIds(history.image, { nodeId: node(2), brokerEpoch: history.broker(2).brokerEpoch })),
      () => history.take(decideNamedProducer(history.image, NAMED).decision),
      () => history.take(decideNamedProducer(history.image, NAMED).decision),
    ];
    for (const step of steps) {
      step();
      hashes.push(history.image.stateHash());
    }
    expect(new Set(hashes).size).toBe(steps.length + 1);
  });
});

describe("a snapshot that is none", () => {
  const codeOf = (bytes: Uint8Array): string => {
    try {
      return `accepted ${MetadataImage.load(bytes).endOffset}`;
    } catch (thrown) {
      return thrown instanceof OttlaError ? thrown.code : `threw ${String(thrown)}`;
    }
  };

  const base = GOLDEN[0] as string;
  const edits: readonly (readonly [string, string, string])[] = [
    ["a space", '"endOffset":9', '"endOffset": 9'],
    ["another spelling of a number", '"endOffset":9', '"endOffset":9e0'],
    ["a field twice", '"endOffset":9', '"endOffset":8,"endOffset":9'],
    ["a field in another place", '"endOffset":9,"cluster":', '"cluster":null,"endOffset":9,"x":'],
    ["an unknown field", '"brokers":[', '"more":1,"brokers":['],
    ["no cluster, but brokers", /"cluster":\{[^}]*\}/.exec(base)?.[0] ?? "", '"cluster":null'],
    ["a broker out of order", '"nodeId":1,"directoryId"', '"nodeId":3,"directoryId"'],
    ["one directory of two", '"AAAAAAAAAAAAAAAAAAAH0g"', '"AAAAAAAAAAAAAAAAAAAH0Q"'],
    ["a fenced leader", "[[2],[],[2],1,null,3,4,-1]", "[[2],[2],[],1,2,3,4,-1]"],
    ["a fenced broker in the ISR", "[[2],[],[2],1,null,3,4,-1]", "[[2],[2],[],1,null,3,4,-1]"],
    ["an ISR that nobody leads", "[[1],[1],[],1,1,0,0,-1]", "[[1],[1],[],1,null,0,0,-1]"],
    ["a leader outside the ISR", "[[1],[1],[],1,1,0,0,-1]", "[[1],[],[],1,1,0,0,-1]"],
    ["an ISR outside the replicas", "[[2],[],[],1,null,3,5,-1]", "[[2],[1],[],1,1,3,5,-1]"],
    ["an ISR that is nobody", "[[2],[],[],1,null,3,5,-1]", "[[9],[9],[],1,9,3,5,-1]"],
    ["an ELR outside the replicas", "[[2],[],[],1,null,3,5,-1]", "[[2],[],[1],1,null,3,5,-1]"],
    ["an ELR that is nobody", "[[2],[],[],1,null,3,5,-1]", "[[9],[],[9],1,null,3,5,-1]"],
    ["an ELR beside an ISR that is large enough", "[[2,1],[1],[2],2,1,4,6,2]", "[[2,1],[1],[2],1,1,4,6,2]"],
    ["one in ISR and ELR", "[[2,1],[1],[2],2,1,4,6,2]", "[[2,1],[1],[1],2,1,4,6,2]"],
    ["an unclean election in an epoch to come", "[[2,1],[1],[2],2,1,4,6,2]", "[[2,1],[1],[2],2,1,4,6,5]"],
    ["no such epoch", "[[2,1],[1],[2],2,1,4,6,2]", "[[2,1],[1],[2],2,1,4,6,-2]"],
    ["a min ISR of nobody", "[[2],[],[],1,null,3,5,-1]", "[[2],[],[],0,null,3,5,-1]"],
    ["no replicas", "[[2],[],[],1,null,3,5,-1]", "[[],[],[],1,null,3,5,-1]"],
    ["a replica twice", "[[2],[],[],1,null,3,5,-1]", "[[2,2],[],[],1,null,3,5,-1]"],
    ["a partition of too many fields", "[[2],[],[],1,null,3,5,-1]", "[[2],[],[],1,null,3,5,-1,6]"],
    ["a tombstone of a topic that is there", '"AAAAAAAAAAAAAAAAAAAAAg"', '"AAAAAAAAAAAAAAAAAAAAAQ"'],
    ["a tombstone owed by nobody", '"owed":[1,2]', '"owed":[]'],
    ["a tombstone owed out of order", '"owed":[1,2]', '"owed":[2,1]'],
    ["a tombstone owed by a stranger", '"owed":[1,2]', '"owed":[1,9]'],
    ["configurations out of order", '"nodeId":null,"configs"', '"nodeId":5,"configs"'],
    ["configurations of nothing", '{"segment.bytes":2048}', "{}"],
    [
      "configuration keys out of order",
      '{"max.message.bytes":1000,"segment.bytes":4096}',
      '{"segment.bytes":4096,"max.message.bytes":1000}',
    ],
    ["a request twice", '"AAAAAAAAAAAAAAAAAAAACA"', '"AAAAAAAAAAAAAAAAAAAACQ"'],
    ["a producer id of two names", '"billing",1099511627778', '"billing",1099511627776'],
    ["a named producer twice", '"billing"', '"mailer"'],
    ["a named producer's id that was never given", '"billing",1099511627778', '"billing",1099511627779'],
    ["a named producer with an id for others", '"billing",1099511627778', '"billing",7'],
    ["ids that run into those of names", '"nextId":3000', '"nextId":1099511627777'],
    ["a named producer of too few fields", ",1700000000000]", "]"],
    ["why a broker is fenced, in version 1", '"isFenced":true', '"isFenced":true,"fencedFor":null'],
    ["another type", '"metadata-image"', '"metadata-images"'],
    ["no version", '"version":1,', ""],
  ];

  test.each(edits)("%s", (_what, from, to) => {
    expect(base).toContain(from);
    expect(codeOf(utf8Encode(base))).toBe("accepted 9");
    expect(codeOf(utf8Encode(base.replace(from, to)))).toBe("DATA_DAMAGED");
  });

  test.each([
    ["a newer format", '"version":1', '"version":3'],
    ["a newer metadata.version", '"metadataVersion":1', '"metadataVersion":3'],
  ])("D-31: %s is refused by name", (_what, from, to) => {
    expect(codeOf(utf8Encode(base.replace(from, to)))).toBe("DATA_DIR_NEWER");
  });

  test("a format that does not go with its metadata.version was never written", () => {
    expect(codeOf(utf8Encode(base.replace('"metadataVersion":1', '"metadataVersion":2')))).toBe("DATA_DAMAGED");
  });

  test("any damage is refused with a code, or is the same image in the same bytes", () => {
    const rng = createRng(7);
    for (let round = 0; round < 5_000; round++) {
      const bytes = utf8Encode(rng.pick(GOLDEN));
      const at = rng.below(bytes.length);
      const to = rng.below(bytes.length);
      const damage = [
        (): Uint8Array => bytes.fill(rng.below(256), at, at + 1),
        (): Uint8Array => bytes.subarray(0, at),
        (): Uint8Array => bytes.copyWithin(at, to, to + 1 + rng.below(60)),
      ];
      const damaged = rng.pick(damage)();
      const code = codeOf(damaged);
      if (code.startsWith("accepted")) expect(MetadataImage.load(damaged).encode()).toEqual(damaged);
      else expect(["DATA_DAMAGED", "DATA_DIR_NEWER"]).toContain(code);
    }
  });
});
