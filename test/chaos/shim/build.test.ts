// Where the shim's library is kept nobody else may have put one: every node would load it.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { buildShim } from "../../../src/chaos/shim/build.ts";

let temporary = "";
beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), "ottla-shim-build-"));
  vi.stubEnv("TMPDIR", temporary);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(temporary, { recursive: true, force: true });
});

describe.skipIf(process.platform !== "linux")("the directory of the library", () => {
  const cache = () => join(temporary, `ottla-shim-${userInfo().uid}`);

  it("is refused where others may write", async () => {
    mkdirSync(cache());
    chmodSync(cache(), 0o777);
    await expect(buildShim("false")).rejects.toThrow("is not this user's alone");
  });

  it("is refused where it is only a name for another one", async () => {
    mkdirSync(join(temporary, "another"));
    symlinkSync("another", cache());
    await expect(buildShim("false")).rejects.toThrow("is not this user's alone");
  });

  it("is refused where it is none", async () => {
    writeFileSync(cache(), "");
    await expect(buildShim("false")).rejects.toThrow();
  });

  it("is made for this user alone", async () => {
    // No compiler: it came that far.
    await expect(buildShim("false")).rejects.toThrow("Command failed");
  });
});
