// docs/protocol.md against the code: the field tables, the limits, the api list and the annotated bytes. REWRITE=1 renews the bytes.
import { readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { unpack } from "msgpackr";
import { describe, expect, it } from "vitest";
import { uuidFromBytes } from "../../src/model/ids.ts";
import { toNodeId } from "../../src/model/ids.ts";
import { API } from "../../src/wire/native/apis.ts";
import type { ApiKey } from "../../src/wire/native/apis.ts";
import type { RaftRequest } from "../../src/wire/native/quorum-apis.ts";
import { RequestAssembler, ResponseAssembler, encodeRequest, encodeResponse } from "../../src/wire/native/codec.ts";
import { LIMITS } from "../../src/wire/native/protocol.ts";
import { FIELD_LIMITS, SUPPORTED_VERSIONS } from "../../src/wire/native/schemas.ts";
import { API_NAMES, ARBITRARIES } from "./arbitraries.ts";
import type { Sample } from "./arbitraries.ts";

const FILE = new URL("../../docs/protocol.md", import.meta.url);
const doc = readFileSync(FILE, "utf8");
const MiB = 1024 * 1024;

/** "entries", "entries[].topicId", ... in wire order. */
function fieldPaths(value: unknown, prefix = ""): string[] {
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, field]) => {
    const path = `${prefix}${name}`;
    if (Array.isArray(field)) return [path, ...fieldPaths(field[0], `${path}[].`)];
    const hasFields = typeof field === "object" && field !== null && !("kind" in field);
    return hasFields ? [path, ...fieldPaths(field, `${path}.`)] : [path];
  });
}

/** All that occur, in their order: what one sample lacks goes behind what comes before it in another. */
function union(samples: readonly string[][]): string[] {
  const all: string[] = [];
  for (const paths of samples) {
    for (const [at, path] of paths.entries()) {
      if (!all.includes(path)) all.splice(at === 0 ? 0 : all.indexOf(paths[at - 1] ?? "") + 1, 0, path);
    }
  }
  return all;
}

const latestOf = (api: ApiKey): number => SUPPORTED_VERSIONS.find(({ key }) => key === api)?.maxVersion ?? -1;

function requestPaths(api: ApiKey): string[] {
  const samples = fc.sample(ARBITRARIES[api].request as fc.Arbitrary<Sample<never>>, { seed: 1, numRuns: 200 });
  const paths = samples.map(({ payload, bodies }) => {
    const assembler = new RequestAssembler({ bodyBytesMax: MiB });
    const messages = encodeRequest({ api, version: latestOf(api), correlationId: 1, deadlineMs: 0 }, payload, bodies);
    const result = messages.map((message) => assembler.push(message)).at(-1);
    return result?.kind === "message" ? fieldPaths(result.message.request) : [];
  });
  return union(paths);
}

function responsePaths(api: ApiKey): string[] {
  const samples = fc.sample(ARBITRARIES[api].response as fc.Arbitrary<Sample<never>>, { seed: 1, numRuns: 200 });
  const version = latestOf(api);
  const header = { api, version, correlationId: 1, more: false, error: "NONE", message: null } as const;
  const paths = samples.map(({ payload, bodies }) => {
    const assembler = new ResponseAssembler({ bodyBytesMax: MiB });
    const result = encodeResponse(header, payload, bodies)
      .map((message) => assembler.push(message))
      .at(-1);
    return result?.kind === "message" ? fieldPaths(result.message.response) : [];
  });
  return union(paths);
}

/** The first column of the two tables under the heading of one api. */
function documentedPaths(api: ApiKey): string[][] {
  const section = doc.split(/^### /m).find((part) => part.split("\n", 1)[0]?.endsWith(`(${api})`) === true) ?? "";
  const tables = section.split("| field | type | meaning |").slice(1);
  return tables.map((table) => [...table.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path = ""]) => path));
}

describe("docs/protocol.md", () => {
  it.each(API_NAMES)("lists every field of %s in the order of the wire", (_name, api) => {
    expect(documentedPaths(api)).toEqual([requestPaths(api), responsePaths(api)]);
  });

  it("lists the apis and their versions", () => {
    const rows = [...doc.matchAll(/^\| (\d+) \| \[(\w+)\]\(#\w+-\d+\) \| (\d+)(?:(?:, | to )(\d+))? \|$/gm)].map(
      ([, key, name, version, newest]) => ({
        key: Number(key),
        name: name?.toUpperCase(),
        minVersion: Number(version),
        maxVersion: Number(newest ?? version),
      }),
    );
    const names = new Map(API_NAMES.map(([name, key]) => [key, name.replaceAll("_", "")]));
    expect(rows).toEqual(SUPPORTED_VERSIONS.map((range) => ({ ...range, name: names.get(range.key) })));
  });

  it("lists every message of Raft with its tag and its fields in the order of the wire", () => {
    const documented = [...doc.matchAll(/^\| (\d+) \| ([a-zA-Z]+) \| (`term`.*) \|$/gm)].map(
      ([, tag, kind, fields]) => ({
        tag: Number(tag),
        kind,
        fields: [...(fields ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name),
      }),
    );
    const samples = fc.sample(ARBITRARIES[API.RAFT].request, { seed: 2, numRuns: 300 });
    const onWire = new Map(samples.map((sample) => raftMessageOf(sample)).map((row) => [row.tag, row]));
    expect(documented).toEqual([...onWire.values()].toSorted((a, b) => a.tag - b.tag));
  });

  it("D-38: states the limits that the code has", () => {
    const format = (value: number): string => value.toLocaleString("en-US");
    expect(doc).toContain(
      `| envelope | ${LIMITS.ENVELOPE_BYTES / 1024} KiB; an answer of Metadata, CreateTopics, DeleteTopics, DescribeConfigs, DeleteRecords, ElectLeaders or DescribePartitions ${LIMITS.METADATA_ANSWER_BYTES / MiB} MiB; a request of AlterPartition and both of ReplicaFetch ${LIMITS.REPLICA_ENVELOPE_BYTES / 1024} KiB |`,
    );
    expect(doc).toContain(`| nesting of arrays in an envelope, itself included | ${LIMITS.DEPTH} |`);
    expect(doc).toContain(`a metadata answer ${format(FIELD_LIMITS.METADATA_ANSWER_ELEMENTS)} |`);
    expect(doc).toContain(`| bodies of one message | ${format(LIMITS.BODIES)} |`);
    expect(doc).toContain(
      `| bodies of one message together | ${LIMITS.LOGICAL_MESSAGE_BODY_BYTES / MiB} MiB; a message with`,
    );
    const seconds = LIMITS.OWED_BODY_SILENCE_MS / 1000;
    expect(doc).toMatch(new RegExp(`\\| time for an owed body, .*\\| ${seconds} s, .*; ${seconds} s without a byte`));
    expect(doc).toContain(`A body of at most ${LIMITS.INLINE_BODY_BYTES / 1024} KiB may be inside`);
    expect(doc).toContain(`text(${FIELD_LIMITS.TEXT})`);
    expect(doc).toContain(`text(${FIELD_LIMITS.CONFIG_VALUE})`);
  });

  it("shows the bytes of a Hello and its answer as they are", () => {
    const blocks = {
      "hello-request": annotate(helloRequest(), REQUEST_NOTES),
      "hello-response": annotate(helloResponse(), RESPONSE_NOTES),
    };
    const renewed = Object.entries(blocks).reduce(
      (text, [mark, block]) =>
        text.replace(new RegExp(`(<!-- ${mark} -->\n\`\`\`\n)[^\`]*`), (_all, head: string) => `${head}${block}`),
      doc,
    );
    if (process.env["REWRITE"] === "1") writeFileSync(FILE, renewed);
    else expect(doc).toBe(renewed);
  });
});

/** As it stands in an envelope: payload 5, its field 4. */
function raftMessageOf({ payload, bodies }: Sample<RaftRequest>): { tag: number; kind: string; fields: string[] } {
  const header = { api: API.RAFT, version: 0, correlationId: 1, deadlineMs: 0 } as const;
  const messages = encodeRequest(header, payload, bodies);
  const assembler = new RequestAssembler({ bodyBytesMax: MiB });
  const decoded = messages.map((message) => assembler.push(message)).at(-1);
  if (decoded?.kind !== "message") throw new Error("not whole");
  const { kind, ...fields } = (decoded.message.request as RaftRequest).message;
  const envelope = unpack(messages[0] ?? new Uint8Array()) as [0, 0, 0, 0, 0, [0, 0, 0, 0, [number]]];
  return { tag: envelope[5][4][0], kind, fields: Object.keys(fields) };
}

function helloRequest(): Uint8Array {
  const header = { api: API.HELLO, version: 0, correlationId: 1, deadlineMs: 5000 } as const;
  return encodeRequest(header, { clientId: "demo", software: "mine 1.0" }, [])[0] as Uint8Array;
}

function helloResponse(): Uint8Array {
  const header = { api: API.HELLO, version: 0, correlationId: 1, more: false, error: "NONE", message: null } as const;
  const answer = {
    clusterId: uuidFromBytes(Uint8Array.from({ length: 16 }, (_, index) => index * 17)),
    nodeId: toNodeId(1),
    brokerEpoch: 42,
    software: "ottla 0.1.0",
    apis: SUPPORTED_VERSIONS,
    messageBytesMax: 1_048_588,
    inFlightBytesMax: 64 * MiB,
  };
  return encodeResponse(header, answer, [])[0] as Uint8Array;
}

/** [bytes of the value, what it is] in wire order; the sum of the lengths is that of the message. */
type Note = readonly [number, string];

const REQUEST_NOTES: readonly Note[] = [
  [1, "array of 6"],
  [1, "api key 1: Hello"],
  [1, "version 0"],
  [1, "correlation id 1"],
  [3, "deadline 5000 ms"],
  [1, "bodies: none"],
  [1, "payload: array of 2"],
  [5, 'clientId "demo"'],
  [9, 'software "mine 1.0"'],
];

const RESPONSE_NOTES: readonly Note[] = [
  [1, "array of 8"],
  [1, "api key 1: Hello"],
  [1, "version 0"],
  [1, "correlation id 1"],
  [1, "flags: the only part"],
  [1, "error code 0: none"],
  [1, "message: nil"],
  [1, "bodies: none"],
  [1, "payload: array of 7"],
  [18, "clusterId"],
  [1, "nodeId 1"],
  [1, "brokerEpoch 42"],
  [12, 'software "ottla 0.1.0"'],
  [SUPPORTED_VERSIONS.length > 15 ? 3 : 1, `apis: array of ${SUPPORTED_VERSIONS.length}`],
  ...SUPPORTED_VERSIONS.map(
    ({ key, minVersion, maxVersion }): Note => [4, `api ${key}, versions ${minVersion} to ${maxVersion}`],
  ),
  [5, "messageBytesMax 1,048,588"],
  [5, "inFlightBytesMax 67,108,864"],
];

function annotate(bytes: Uint8Array, notes: readonly Note[]): string {
  let position = 0;
  let text = "";
  for (const [length, about] of notes) {
    const octets = [...bytes.subarray(position, position + length)].map((octet) => octet.toString(16).padStart(2, "0"));
    text += `${octets.join(" ").padEnd(54)}${about}\n`;
    position += length;
  }
  expect(position).toBe(bytes.length);
  return text;
}
