// What ports/Files promises, as cases for every adapter.
import { expect } from "vitest";
import { utf8Decode, utf8Encode } from "../../src/base/bytes.ts";
import { FileError, type FileErrorKind, type FileHandle, type Files } from "../../src/ports/files.ts";
import type { ContractCase } from "./contract.ts";

export interface FilesSubject {
  readonly files: Files;
  /** An existing empty directory. */
  readonly directory: string;
}

async function kindOf(failing: Promise<unknown>): Promise<FileErrorKind | "none"> {
  try {
    await failing;
    return "none";
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(FileError);
    return (thrown as FileError).kind;
  }
}

async function readAll(handle: FileHandle): Promise<string> {
  const bytes = new Uint8Array(await handle.size());
  expect(await handle.read(0, bytes)).toBe(bytes.length);
  return utf8Decode(bytes);
}

async function put(files: Files, path: string, text: string): Promise<void> {
  const handle = await files.open(path, "create");
  await handle.write(0, [utf8Encode(text)]);
  await handle.close();
}

async function get(files: Files, path: string): Promise<string> {
  const handle = await files.open(path, "read");
  const text = await readAll(handle);
  await handle.close();
  return text;
}

export const filesContract: readonly ContractCase<FilesSubject>[] = [
  {
    name: "create makes an empty file and refuses one that exists",
    async run({ files, directory }) {
      const handle = await files.open(`${directory}/a`, "create");
      expect(await handle.size()).toBe(0);
      expect(handle.path).toBe(`${directory}/a`);
      await handle.close();
      expect(await kindOf(files.open(`${directory}/a`, "create"))).toBe("exists");
    },
  },
  {
    name: "read and write refuse a file that does not exist; open-or-create takes either",
    async run({ files, directory }) {
      expect(await kindOf(files.open(`${directory}/a`, "read"))).toBe("not-found");
      expect(await kindOf(files.open(`${directory}/a`, "write"))).toBe("not-found");
      await (await files.open(`${directory}/a`, "open-or-create")).close();
      const again = await files.open(`${directory}/a`, "open-or-create");
      await again.write(0, [utf8Encode("kept")]);
      await again.close();
      expect(await get(files, `${directory}/a`)).toBe("kept");
      const third = await files.open(`${directory}/a`, "open-or-create");
      expect(await third.size()).toBe(4);
      await third.close();
    },
  },
  {
    name: "a file in a directory that does not exist is not-found",
    async run({ files, directory }) {
      expect(await kindOf(files.open(`${directory}/none/a`, "create"))).toBe("not-found");
      expect(await kindOf(files.list(`${directory}/none`))).toBe("not-found");
      expect(await kindOf(files.syncDirectory(`${directory}/none`))).toBe("not-found");
    },
  },
  {
    name: "chunks are written one after another from the position",
    async run({ files, directory }) {
      const handle = await files.open(`${directory}/a`, "create");
      await handle.write(0, [utf8Encode("one "), new Uint8Array(0), utf8Encode("two "), utf8Encode("three")]);
      await handle.write(4, [utf8Encode("TWO")]);
      expect(await readAll(handle)).toBe("one TWO three");
      await handle.write(13, []);
      await handle.write(99, [new Uint8Array(0)]);
      expect(await handle.size()).toBe(13);
      await handle.close();
    },
  },
  {
    name: "more chunks than one system call takes, and more bytes than a synchronous write",
    async run({ files, directory }) {
      const handle = await files.open(`${directory}/a`, "create");
      const chunks = Array.from({ length: 3000 }, (_, index) => new Uint8Array(100).fill(index % 251));
      await handle.write(7, chunks);
      expect(await handle.size()).toBe(300_007);
      const back = new Uint8Array(300_000);
      expect(await handle.read(7, back)).toBe(300_000);
      for (let index = 0; index < 3000; index++) expect(back[index * 100 + 99]).toBe(index % 251);
      await handle.close();
    },
  },
  {
    name: "bytes between the old end and the position read as zeros",
    async run({ files, directory }) {
      const handle = await files.open(`${directory}/a`, "create");
      await handle.write(3, [utf8Encode("x")]);
      expect(await readAll(handle)).toBe("\0\0\0x");
      await handle.close();
    },
  },
  {
    name: "a read is short only at the end of the file",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "0123456789");
      const handle = await files.open(`${directory}/a`, "read");
      const target = new Uint8Array(8).fill(0xff);
      expect(await handle.read(6, target)).toBe(4);
      expect([...target]).toEqual([54, 55, 56, 57, 255, 255, 255, 255]);
      expect(await handle.read(10, target)).toBe(0);
      expect(await handle.read(1000, target)).toBe(0);
      expect(await handle.read(0, new Uint8Array(0))).toBe(0);
      await handle.close();
    },
  },
  {
    name: "truncate cuts and extends with zeros",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "0123456789");
      const handle = await files.open(`${directory}/a`, "write");
      await handle.truncate(4);
      expect(await readAll(handle)).toBe("0123");
      await handle.truncate(6);
      expect(await readAll(handle)).toBe("0123\0\0");
      await handle.datasync();
      await handle.close();
    },
  },
  {
    name: "a file opened for reading takes no write",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "kept");
      const handle = await files.open(`${directory}/a`, "read");
      expect(await kindOf(handle.write(0, [utf8Encode("lost")]))).not.toBe("none");
      expect(await readAll(handle)).toBe("kept");
      await handle.close();
    },
  },
  {
    name: "a closed handle refuses everything but close",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "kept");
      const handle = await files.open(`${directory}/a`, "write");
      await handle.close();
      await handle.close();
      expect(await kindOf(handle.read(0, new Uint8Array(1)))).toBe("other");
      expect(await kindOf(handle.write(0, [new Uint8Array(1)]))).toBe("other");
      expect(await kindOf(handle.datasync())).toBe("other");
      expect(await kindOf(handle.truncate(0))).toBe("other");
      expect(await kindOf(handle.size())).toBe("other");
      expect(await get(files, `${directory}/a`)).toBe("kept");
    },
  },
  {
    name: "rename moves and replaces",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "new");
      await put(files, `${directory}/b`, "old");
      await files.rename(`${directory}/a`, `${directory}/b`);
      await files.syncDirectory(directory);
      expect(await get(files, `${directory}/b`)).toBe("new");
      expect(await kindOf(files.open(`${directory}/a`, "read"))).toBe("not-found");
      expect(await kindOf(files.rename(`${directory}/a`, `${directory}/c`))).toBe("not-found");
    },
  },
  {
    name: "a directory is renamed with what it holds, also into another directory",
    async run({ files, directory }) {
      await files.makeDirectory(`${directory}/one`);
      await files.makeDirectory(`${directory}/two`);
      await put(files, `${directory}/one/a`, "text");
      await files.rename(`${directory}/one`, `${directory}/two/three`);
      expect(await get(files, `${directory}/two/three/a`)).toBe("text");
      expect(await kindOf(files.list(`${directory}/one`))).toBe("not-found");
    },
  },
  {
    name: "an open file outlives its name",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "text");
      const handle = await files.open(`${directory}/a`, "write");
      await files.unlink(`${directory}/a`);
      expect(await readAll(handle)).toBe("text");
      await handle.write(4, [utf8Encode("!")]);
      expect(await readAll(handle)).toBe("text!");
      await handle.close();
      expect(await files.list(directory)).toEqual([]);
      expect(await kindOf(files.unlink(`${directory}/a`))).toBe("not-found");
    },
  },
  {
    name: "makeDirectory creates parents and takes one that exists",
    async run({ files, directory }) {
      await files.makeDirectory(`${directory}/a/b/c`);
      await files.makeDirectory(`${directory}/a/b/c`);
      await files.syncDirectory(`${directory}/a/b`);
      expect(await files.list(`${directory}/a/b`)).toEqual([{ name: "c", kind: "directory" }]);
    },
  },
  {
    name: "removeDirectory takes only an empty one",
    async run({ files, directory }) {
      await files.makeDirectory(`${directory}/a`);
      await put(files, `${directory}/a/file`, "");
      expect(await kindOf(files.removeDirectory(`${directory}/a`))).toBe("not-empty");
      await files.unlink(`${directory}/a/file`);
      await files.removeDirectory(`${directory}/a`);
      expect(await kindOf(files.removeDirectory(`${directory}/a`))).toBe("not-found");
    },
  },
  {
    name: "list is sorted by name and tells files from directories",
    async run({ files, directory }) {
      for (const name of ["b", "a10", "a9", "B"]) await put(files, `${directory}/${name}`, "");
      await files.makeDirectory(`${directory}/a`);
      const listed = await files.list(directory);
      expect(listed.map((entry) => entry.name)).toEqual(["B", "a", "a10", "a9", "b"]);
      expect(listed.find((entry) => entry.name === "a")?.kind).toBe("directory");
      expect(listed.filter((entry) => entry.kind === "file")).toHaveLength(4);
    },
  },
  {
    name: "two handles of one file see each other's writes",
    async run({ files, directory }) {
      await put(files, `${directory}/a`, "old");
      const writer = await files.open(`${directory}/a`, "write");
      const reader = await files.open(`${directory}/a`, "read");
      await writer.write(0, [utf8Encode("new")]);
      expect(await readAll(reader)).toBe("new");
      await writer.close();
      await reader.close();
    },
  },
  {
    name: "writes to different places of a file may be under way together",
    async run({ files, directory }) {
      const handle = await files.open(`${directory}/a`, "create");
      await Promise.all(["aa", "bb", "cc", "dd"].map((text, index) => handle.write(index * 2, [utf8Encode(text)])));
      await handle.datasync();
      expect(await readAll(handle)).toBe("aabbccdd");
      await handle.close();
    },
  },
  {
    name: "a directory is locked once, until it is released",
    async run({ files, directory }) {
      const first = await files.lockDirectory(directory);
      expect(first.kind).toBe("acquired");
      const second = await files.lockDirectory(directory);
      expect(second.kind).toBe("held");
      if (second.kind === "held") expect(second.ownerPid).toBeGreaterThan(0);
      if (first.kind === "acquired") await first.release();
      const third = await files.lockDirectory(directory);
      expect(third.kind).toBe("acquired");
      if (third.kind === "acquired") await third.release();
    },
  },
  {
    name: "a directory that does not exist cannot be locked",
    async run({ files, directory }) {
      expect(await kindOf(files.lockDirectory(`${directory}/none`))).toBe("not-found");
    },
  },
  {
    name: "free space is a positive number of bytes",
    async run({ files, directory }) {
      expect(await files.freeBytes(directory)).toBeGreaterThan(0);
    },
  },
];
