// What attackers send: the same for the same seed, every api in every version, half of it damaged so that it ends early, half so that it gets deep.
import { expect, it } from "vitest";
import { type FrameCase, frameCase } from "../../scripts/attack/frames.ts";
import type { Knowledge } from "../../scripts/attack/samples.ts";
import { createRng } from "../../src/base/rng.ts";
import { checkProducedBatch } from "../../src/model/record-batch.ts";
import type { TopicId, Uuid } from "../../src/model/ids.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { API } from "../../src/wire/native/apis.ts";
import { RequestAssembler, SUPPORTED_VERSIONS } from "../../src/wire/native/codec.ts";
import type { DecodedRequest } from "../../src/wire/native/protocol.ts";

const SEED = 7;
const CASES = 6_000;
const MiB = 1024 * 1024;
const UUID = "AAAAAAAAAAAAAAAAAAAAAQ";
const KNOWN: Knowledge = {
  clusterId: UUID as Uuid,
  nodeId: 1,
  brokerEpoch: 3,
  voter: `1:${UUID}`,
  term: 2,
  topics: [{ name: "a", topicId: UUID as TopicId, partitions: 3 }],
  producerId: 5,
};

function decoded(messages: readonly Uint8Array[]): DecodedRequest | undefined {
  const assembler = new RequestAssembler({ bodyBytesMax: MiB });
  let last: ReturnType<RequestAssembler["push"]> | undefined;
  for (const message of messages) last = assembler.push(message);
  return last?.kind === "message" ? last.message : undefined;
}

const bytesOf = (one: FrameCase | undefined): string[] =>
  [...(one?.messages ?? []), one?.raw ?? new Uint8Array(0)].map((bytes) => Buffer.from(bytes).toString("hex"));

const cases = Array.from({ length: CASES }, (_, index) => frameCase(SEED, index, KNOWN));
const repaired = cases.filter(({ isRepaired }) => isRepaired);
const requests = repaired.map(({ messages }) => decoded(messages));

it("a case is the same whenever it is asked for, and another one with another seed", () => {
  const rng = createRng(3);
  let others = 0;
  for (let left = 50; left > 0; left--) {
    const index = rng.below(CASES);
    const first = bytesOf(cases[index]);
    expect(bytesOf(frameCase(SEED, index, KNOWN))).toEqual(first);
    if (bytesOf(frameCase(SEED + 1, index, KNOWN)).join() !== first.join()) others++;
  }
  // A frame that is cut down to nothing looks like any other.
  expect(others).toBeGreaterThan(40);
});

it("every second one is repaired; of those most are requests, of the others few", () => {
  expect(repaired.length).toBe(CASES / 2);
  const isRequest = (one: unknown) => one !== undefined;
  const deep = requests.filter(isRequest).length;
  const early = cases.filter((one) => !one.isRepaired && isRequest(decoded(one.messages))).length;
  expect(deep).toBeGreaterThan(CASES / 4);
  expect(early).toBeLessThan(CASES / 6);
  expect(early).toBeGreaterThan(0);
});

it("every api gets through in every version", () => {
  const seen = new Set(
    requests.flatMap((one) => (one === undefined ? [] : [`${one.header.api} ${one.header.version}`])),
  );
  for (const { key, minVersion, maxVersion } of SUPPORTED_VERSIONS)
    for (let version = minVersion; version <= maxVersion; version++) expect(seen).toContain(`${key} ${version}`);
});

it("batches are refused for their checksum, for their header and for their records, and some are taken", () => {
  const checksum = createChecksum();
  const told = new Set<string>();
  for (const { messages } of cases) {
    const request = decoded(messages);
    if (request?.header.api !== API.PRODUCE) continue;
    for (const body of request.bodies)
      told.add(checkProducedBatch(body, { maxBytes: MiB, segmentBytes: MiB, checksum })?.error ?? "taken");
  }
  for (const error of ["taken", "CORRUPT_MESSAGE", "INVALID_RECORD"]) expect(told).toContain(error);
});
