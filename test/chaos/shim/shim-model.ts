// The simulator's disk as the model of a directory under the preload shim: the same steps, the same choices, the same outcome.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createRng, type Rng } from "../../../src/base/rng.ts";
import type { Choices } from "../../../src/chaos/shim/choices.ts";
import { createChecksum } from "../../../src/platform/checksum.ts";
import { type CrashChoices, type DiskImage, type Fate, type FileNode } from "../../../src/sim/disk-image.ts";
import { bytesOf, type Step } from "./steps.ts";

const checksum = createChecksum();

/** Names, sizes and sums of all below a directory, in the words of DiskImage.fingerprint. */
export function fingerprintOf(root: string): string {
  const lines: string[] = [];
  const walk = (directory: string, path: string): void => {
    for (const name of readdirSync(directory).sort((left, right) => (left < right ? -1 : 1))) {
      const whole = join(directory, name);
      if (statSync(whole).isDirectory()) {
        lines.push(`${path}${name}/`);
        walk(whole, `${path}${name}/`);
      } else {
        const bytes = readFileSync(whole);
        lines.push(`${path}${name} ${bytes.length} ${checksum.crc32c(bytes)}`);
      }
    }
  };
  walk(root, "");
  return lines.join("\n");
}

export function fingerprintOfImage(image: DiskImage): string {
  return image.fingerprint(checksum);
}

function fileAt(image: DiskImage, path: string): FileNode {
  const node = image.find(path);
  if (node?.kind !== "file") throw new Error(`no file ${path}`);
  return node;
}

/** `doneBytes`: only so much of a write was made. */
export function applyStep(image: DiskImage, step: Step, choices: CrashChoices, doneBytes?: number): void {
  switch (step.kind) {
    case "create":
      image.createFile(step.path);
      return;
    case "unlink":
      return image.unlink(step.path);
    case "makeDirectory":
      return image.makeDirectory(step.path);
    case "removeDirectory":
      return image.removeDirectory(step.path);
    case "syncDirectory": {
      const node = image.find(step.path);
      if (node?.kind === "directory") image.syncDirectory(node, image.sequence);
      return;
    }
    case "write":
      return image.write(fileAt(image, step.path), step.position, bytesOf(step).subarray(0, doneBytes));
    case "truncate":
      return image.truncate(fileAt(image, step.path), step.sizeBytes);
    case "sync": {
      const file = fileAt(image, step.path);
      if (step.fails) image.failSync(file, choices);
      else image.sync(file, image.sequence);
      return;
    }
    case "rename":
      return image.rename(step.path, step.to);
  }
}

/** Fates that depend on nothing but what an operation did, so that the model and the shim decide alike. */
export interface Fates {
  readonly ofModel: CrashChoices;
  readonly ofShim: Choices;
}

export function drawFates(rng: Rng): Fates {
  const [keep, tear, salt] = [rng.pick([0, 0.3, 0.7, 1]), rng.pick([0, 0.5]), rng.u32()];
  const draw = (key: string) => createRng([salt, checksum.crc32c(Buffer.from(key)), key.length, 1]);
  const isKept = (key: string) => draw(key).chance(keep);
  const ofWrite = (position: number, crc: number): Fate => {
    const key = `write ${position} ${crc}`;
    if (!draw(`tear ${key}`).chance(tear)) return { kind: isKept(key) ? "kept" : "dropped" };
    return { kind: "torn", keepsSector: (sector) => draw(`${key} ${sector}`).chance(0.5) };
  };
  const ofExtension = (position: number, crc: number) => isKept(`length ${position} ${crc}`);
  const ofTruncate = (sizeBytes: number) => isKept(`truncate ${sizeBytes}`);
  return {
    ofModel: {
      ofWrite: ({ position, bytes }) => ofWrite(position, checksum.crc32c(bytes)),
      ofExtension: ({ position, bytes }) => ofExtension(position, checksum.crc32c(bytes)),
      ofTruncate: ({ sizeBytes }) => ofTruncate(sizeBytes),
      ofDirectory: ({ kind, name, toName }) => isKept(`${kind} ${name} ${kind === "rename" ? toName : ""}`),
    },
    ofShim: {
      ofWrite(operation) {
        const fate = ofWrite(operation.position, operation.crc ?? 0);
        return fate.kind === "torn" ? fate.keepsSector : fate.kind;
      },
      ofExtension: ({ position, crc }) => ofExtension(position, crc ?? 0),
      ofTruncate: ({ sizeBytes }) => ofTruncate(sizeBytes),
      ofName(operation) {
        const kind = KIND_IN_MODEL[operation.kind];
        return isKept(`${kind} ${operation.name} ${operation.kind === "rename" ? operation.toName : ""}`);
      },
    },
  };
}

const KIND_IN_MODEL = {
  link: "link",
  makeDirectory: "link",
  unlink: "unlink",
  removeDirectory: "unlink",
  rename: "rename",
} as const;

/** Steps that are possible one after another from what the image shows; it is left as it was. */
export function drawSteps(rng: Rng, from: DiskImage, count: number): Step[] {
  const image = from.clone();
  const steps: Step[] = [];
  const choices = drawFates(rng).ofModel;
  while (steps.length < count) {
    const step = drawStep(rng, image);
    if (step === undefined) continue;
    applyStep(image, step, choices);
    steps.push(step);
  }
  return steps;
}

const FILES_MAX = 12;
const SIZE_MAX = 40_000;

function directoriesOf(image: DiskImage, path = ""): string[] {
  const node = image.find(path);
  if (node?.kind !== "directory") return [];
  return [path, ...[...node.live.keys()].flatMap((name) => directoriesOf(image, `${path}/${name}`))];
}

function drawStep(rng: Rng, image: DiskImage): Step | undefined {
  const directories = directoriesOf(image);
  const directory = rng.pick(directories);
  const files = image.filesBelow("");
  const file = files.length === 0 ? undefined : rng.pick(files);
  const fresh = `${directory}/n${rng.below(40)}`;
  const isFree = image.find(fresh) === undefined;
  if (file === undefined) return isFree ? { kind: "create", path: fresh } : undefined;
  const { path, sizeBytes } = file;
  const kind = rng.below(100);
  if (kind < 8) return isFree && files.length < FILES_MAX ? { kind: "create", path: fresh } : undefined;
  if (kind < 12) return isFree && directories.length < 5 ? { kind: "makeDirectory", path: fresh } : undefined;
  if (kind < 50) return drawWrite(rng, path, sizeBytes);
  if (kind < 56) return { kind: "truncate", path, sizeBytes: rng.below(rng.chance(0.5) ? sizeBytes + 1 : SIZE_MAX) };
  if (kind < 70) return { kind: "sync", path, fails: rng.chance(0.05) };
  if (kind < 82) return { kind: "syncDirectory", path: directory };
  if (kind < 86) return { kind: "unlink", path };
  if (kind < 88) return isRemovable(image, directory) ? { kind: "removeDirectory", path: directory } : undefined;
  if (kind < 90) return drawDirectoryRename(rng, image, directory);
  return drawRename(rng, image, path);
}

function drawWrite(rng: Rng, path: string, sizeBytes: number): Step {
  const position = rng.chance(0.4) ? sizeBytes : rng.below(rng.chance(0.2) ? SIZE_MAX : sizeBytes + 1);
  const bytes = Buffer.alloc(1 + rng.below(rng.pick([20, 600, 5_000, 12_000])));
  // Zeros too: the journal keeps those apart.
  if (rng.chance(0.8)) rng.fill(bytes);
  return { kind: "write", path, position, bytes: bytes.toString("base64") };
}

function isRemovable(image: DiskImage, directory: string): boolean {
  const node = image.find(directory);
  return directory !== "" && node?.kind === "directory" && node.live.size === 0;
}

function drawRename(rng: Rng, image: DiskImage, path: string): Step | undefined {
  const directory = path.slice(0, path.lastIndexOf("/"));
  const to = `${directory}/n${rng.below(40)}`;
  return to === path || image.find(to)?.kind === "directory" ? undefined : { kind: "rename", path, to };
}

function drawDirectoryRename(rng: Rng, image: DiskImage, directory: string): Step | undefined {
  if (directory === "") return undefined;
  const to = `${directory.slice(0, directory.lastIndexOf("/"))}/n${rng.below(40)}`;
  return image.find(to) === undefined ? { kind: "rename", path: directory, to } : undefined;
}
