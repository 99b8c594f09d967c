// A program that the tests run under the preload shim and kill: does the operations of a script one by one and says, in a file that
// no fault touches, how far it came: a byte before and a byte after each.
import * as fs from "node:fs";
import { createRng } from "../../../src/base/rng.ts";
import { FAULT_SLOTS } from "../../../src/chaos/shim/control.ts";

export type Step =
  | {
      readonly kind: "create" | "unlink" | "makeDirectory" | "removeDirectory" | "syncDirectory";
      readonly path: string;
    }
  | {
      readonly kind: "write";
      readonly path: string;
      readonly position: number;
      readonly sizeBytes: number;
      readonly seed: number;
    }
  | { readonly kind: "truncate"; readonly path: string; readonly sizeBytes: number }
  | { readonly kind: "sync"; readonly path: string; readonly fails: boolean }
  | { readonly kind: "rename"; readonly path: string; readonly to: string };

export interface Script {
  readonly root: string;
  readonly progressFile: string;
  readonly controlFile: string;
  readonly steps: readonly Step[];
}

/** What a write step writes. Some are all zeros: the journal keeps those apart. */
export function bytesOf(step: Step & { kind: "write" }): Uint8Array {
  const bytes = new Uint8Array(step.sizeBytes);
  if (step.seed % 5 !== 0) createRng(step.seed).fill(bytes);
  return bytes;
}

function withFile(path: string, flags: string | number, use: (fd: number) => void): void {
  const fd = fs.openSync(path, flags);
  try {
    use(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function failNextSync(controlFile: string): void {
  const one = Buffer.alloc(8);
  one.writeBigInt64LE(1n);
  withFile(controlFile, "r+", (fd) => fs.writeSync(fd, one, 0, 8, FAULT_SLOTS.failSyncs * 8));
}

function write(path: string, step: Step & { kind: "write" }): void {
  const bytes = bytesOf(step);
  const half = bytes.length >> 1;
  withFile(path, "r+", (fd) => {
    const chunks = [bytes.subarray(0, half), bytes.subarray(half)];
    // As files.ts does: pwritev, for the rest after a short write again.
    for (let done = 0; done < bytes.length; ) {
      const left = done === 0 ? chunks : [bytes.subarray(done)];
      done += fs.writevSync(fd, left, step.position + done);
    }
  });
}

function sync(path: string, fails: boolean, controlFile: string): void {
  if (fails) failNextSync(controlFile);
  withFile(path, "r+", (fd) => {
    try {
      fs.fdatasyncSync(fd);
    } catch (error) {
      if (!fails) throw error;
    }
  });
}

function run(script: Script, step: Step): void {
  const path = `${script.root}${step.path}`;
  switch (step.kind) {
    case "create":
      return withFile(path, fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL, () => undefined);
    case "unlink":
      return fs.unlinkSync(path);
    case "makeDirectory":
      return void fs.mkdirSync(path);
    case "removeDirectory":
      return fs.rmdirSync(path);
    case "syncDirectory":
      return withFile(path, fs.constants.O_RDONLY, fs.fsyncSync);
    case "write":
      return write(path, step);
    case "truncate":
      return withFile(path, "r+", (fd) => fs.ftruncateSync(fd, step.sizeBytes));
    case "sync":
      return sync(path, step.fails, script.controlFile);
    case "rename":
      return fs.renameSync(path, `${script.root}${step.to}`);
  }
}

const [, , file] = process.argv;
if (file?.endsWith(".script.json") === true) {
  const script = JSON.parse(fs.readFileSync(file, "utf8")) as Script;
  const progress = fs.openSync(script.progressFile, "w");
  for (const step of script.steps) {
    fs.writeSync(progress, "<");
    run(script, step);
    fs.writeSync(progress, ">");
  }
  // To be killed: a process that ends by itself would be another test.
  setInterval(() => undefined, 1000);
}
