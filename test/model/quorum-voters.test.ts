// The address list of the quorum: what it takes, and how a fault is told.
import { describe, expect, it } from "vitest";
import { OttlaError } from "../../src/model/errors.ts";
import { parseVoters } from "../../src/model/quorum-voters.ts";

describe("controller.quorum.voters", () => {
  it("gives the voters in ascending order of their ids", () => {
    expect(parseVoters("3@c:7072, 1@a:7070 ,2@b.example:7071")).toEqual([
      { nodeId: 1, address: "a:7070" },
      { nodeId: 2, address: "b.example:7071" },
      { nodeId: 3, address: "c:7072" },
    ]);
  });

  it.each([
    ["", '"" is not id@host:port'],
    ["1@a", '"1@a" is not id@host:port'],
    ["a:7070", '"a:7070" is not id@host:port'],
    ["0@a:7070", '"0@a:7070" is not id@host:port'],
    ["70000@a:7070", '"70000@a:7070" is not id@host:port'],
    ["1@a:7070,", '"" is not id@host:port'],
    ["1@a:7070,1@b:7070", "node 1 stands twice"],
    ["1@a:7070,2@a:7070", "a:7070 stands twice"],
  ])("refuses %j", (text, why) => {
    expect(() => parseVoters(text)).toThrow(OttlaError);
    expect(() => parseVoters(text)).toThrow(why);
  });
});
