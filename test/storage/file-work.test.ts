// A job on a whole file ends with its file closed; only a failed disk is not waited for.
import { expect, test } from "vitest";
import { FileError, type FileHandle } from "../../src/ports/files.ts";
import { datasync } from "../../src/storage/faults.ts";
import { withFile } from "../../src/storage/file-work.ts";
import { MemoryFiles } from "./memory-files.ts";
import { settle } from "./support.ts";

/** How a job ends whose file is never closed. */
async function endOf(work: (handle: FileHandle) => Promise<unknown>): Promise<string> {
  const files = new MemoryFiles();
  files.onOperation = ({ kind, path }) => {
    if (kind === "datasync") throw new FileError("io", kind, path);
  };
  const open = files.open.bind(files);
  files.open = async (path, mode) => {
    const handle = await open(path, mode);
    handle.close = () => new Promise<void>(() => undefined);
    return handle;
  };
  let end = "waits";
  void withFile(files, { path: "file", mode: "open-or-create" }, work).then(
    () => (end = "done"),
    (thrown: unknown) => (end = thrown instanceof Error ? thrown.message : String(thrown)),
  );
  await settle(20);
  return end;
}

test("D-13, invariant 42: a failed sync is told before its file is closed", async () => {
  expect(await endOf(datasync)).toMatch(/^the disk failed: datasync file/);
});

test("a job that is done, and one that may be tried again, end with their file closed", async () => {
  expect(await endOf(() => Promise.resolve())).toBe("waits");
  expect(await endOf(() => Promise.reject(new FileError("no-space", "write", "file")))).toBe("waits");
});
