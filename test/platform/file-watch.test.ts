import { describe, expect, it } from "vitest";
import { FileWatch, openFilesLimit } from "../../src/platform/file-watch.ts";

describe("the watch over file descriptors", () => {
  it("tells once when few are left, with what helps", () => {
    const told: string[] = [];
    const watch = new FileWatch((about) => told.push(about), 4);
    for (let count = 0; count < 200; count++) watch.opened();
    watch.failed();
    expect(told).toEqual([expect.stringMatching(/^\d+ of 4 file descriptors are in use; raise the limit .*ulimit -n/)]);
  });

  it("tells of a connection that could not be accepted, and says nothing while there are enough", () => {
    const told: string[] = [];
    const watch = new FileWatch((about) => told.push(about), 1_000_000);
    for (let count = 0; count < 200; count++) watch.opened();
    expect(told).toEqual([]);
    watch.failed();
    expect(told).toEqual([expect.stringContaining("could not be accepted")]);
  });

  it("knows the limit of this process", () => {
    expect(openFilesLimit() === undefined).toBe(process.platform !== "linux");
  });
});
