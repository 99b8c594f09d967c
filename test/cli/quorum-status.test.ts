// The first line of `ottla quorum status`: what the node says of itself stands there in its own words.
import { expect, it } from "vitest";
import type { QuorumInfo } from "../../src/client/types.ts";
import { headline } from "../../src/cli/commands/quorum.ts";

const quorum = (more: Partial<QuorumInfo>): QuorumInfo => ({
  clusterId: "c1",
  nodeId: 2,
  role: "controller",
  leaderId: 2,
  term: 4,
  commitEnd: 100,
  metadataVersion: 2,
  supportedVersions: { min: 1, max: 2 },
  voters: [],
  waitingFor: null,
  ...more,
});

it.each([
  "waiting for a quorum: 1 of 3 voters reachable",
  "the disk of node 3 remembers less than it once promised: replace that voter (ottla quorum replace)",
])("says what is wrong: %s", (waitingFor) => {
  expect(headline(quorum({ waitingFor }))).toMatch(/^cluster c1 {2}leader 2 .*/);
  expect(headline(quorum({ waitingFor })).endsWith(`  node 2 says: ${waitingFor}`)).toBe(true);
  expect(headline(quorum({ waitingFor, clusterId: null }))).toBe(`no cluster yet: node 2 says: ${waitingFor}`);
});

it("says nothing more when all is well", () => {
  expect(headline(quorum({}))).toMatch(/supports 1 to 2\)$/);
  expect(headline(quorum({ clusterId: null }))).toBe("no cluster yet");
});
