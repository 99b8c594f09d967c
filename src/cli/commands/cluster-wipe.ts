// ottla cluster wipe: deletes what nodes keep on disk. Only with --yes, only of nodes that do not run, and only folders that are a node's.
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { OttlaError } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { createChecksum } from "../../platform/checksum.ts";
import { createFiles } from "../../platform/files.ts";
import { lockDirectory } from "../../platform/lock.ts";
import { SUPERBLOCK } from "../../storage/paths.ts";
import { readSuperblockAt } from "../../storage/superblock.ts";
import { CommandFailure } from "../failure.ts";
import { dataDirNoteOf, dataDirOf, namesIn, nodeFolder, nodeFolders, ownDataDir } from "../cluster/folders.ts";
import type { Invocation } from "../invocation.ts";
import { isAlive } from "../process-identity.ts";
import { type ClusterState, launcherLogOf, removeStateOf } from "../state-file.ts";
import { counted, humanBytes, parseInteger } from "../values.ts";
import { type DirectoryFlags, directoryOf, stateOf } from "./cluster-target.ts";

export interface WipeFlags extends DirectoryFlags {
  readonly yes?: boolean;
}

interface Victim {
  readonly nodeId: number;
  /** node-<id>: its log, and its data unless that is elsewhere. */
  readonly folder: string;
  readonly dataDir: string;
}

export async function clusterWipe({ args, flags, output }: Invocation<WipeFlags>): Promise<number> {
  const dataDir = directoryOf(flags);
  const state = stateOf(dataDir);
  const victims = victimsOf(dataDir, args);
  refuseRunning(state, victims, args.length === 0);
  await refuseForeign(victims);
  const bytes = victims
    .flatMap(placesOf)
    .map(sizeOf)
    .reduce((sum, size) => sum + size, 0);
  const what = `${counted(victims.length, "node")} (${victims.map(({ nodeId }) => nodeId).join(", ")}), ${humanBytes(bytes)} in ${[dataDir, ...victims.filter(isElsewhere).map((victim) => victim.dataDir)].join(", ")}`;
  if (victims.length > 0 && flags.yes !== true) {
    throw new CommandFailure({
      code: "NOT_CONFIRMED",
      message: `this deletes everything of ${what}`,
      hint: "add --yes when that is meant",
      exitCode: EXIT.UNSAFE,
    });
  }
  await claimAll(victims);
  for (const victim of victims) remove(victim, args.length === 0);
  if (args.length === 0) {
    if (state !== undefined) removeStateOf(dataDir, state);
    rmSync(launcherLogOf(dataDir), { force: true });
  }
  const nodeIds = victims.map(({ nodeId }) => nodeId);
  if (output.isJson) output.json("cluster.wipe", { dataDir, nodes: nodeIds, bytes });
  else output.line(victims.length === 0 ? `nothing to delete in ${dataDir}` : `deleted ${what}`);
  if (args.length > 0 && nodeIds.length > 0) {
    const replace = nodeIds.map((nodeId) => `ottla quorum replace ${nodeId}`).join(", ");
    output.note(`ottla cluster start ${nodeIds.join(" ")} starts it as a new replica; if it was a voter: ${replace}`);
  }
  return EXIT.OK;
}

function victimsOf(dataDir: string, args: readonly string[]): Victim[] {
  const ids = args.map((text) => parseInteger(text, "a node", { min: 1, max: 65_535 }));
  const present = nodeFolders(dataDir);
  for (const nodeId of ids) if (!present.includes(nodeId)) throw unknownNode(nodeId, present, dataDir);
  const wanted = args.length === 0 ? present : [...new Set(ids)];
  return wanted
    .sort((one, other) => one - other)
    .map((nodeId) => {
      const folder = nodeFolder(dataDir, nodeId);
      return { nodeId, folder, dataDir: dataDirOf(folder) };
    });
}

const isElsewhere = ({ folder, dataDir }: Victim): boolean => dataDir !== ownDataDir(folder);

/** Of a directory elsewhere: what is in it, as it may be where a disk is mounted; a file system's own is not the node's. */
const contentsOf = (dataDir: string): string[] =>
  namesIn(dataDir).flatMap((name) => (name === "lost+found" ? [] : [join(dataDir, name)]));

const placesOf = (victim: Victim): string[] =>
  isElsewhere(victim) ? [victim.folder, ...contentsOf(victim.dataDir)] : [victim.folder];

/** `isWhole`: its log as well. */
function remove(victim: Victim, isWhole: boolean): void {
  const { folder, dataDir } = victim;
  const data = isElsewhere(victim) ? contentsOf(dataDir) : [dataDir];
  for (const path of isWhole ? [...data, folder] : data) rmSync(path, { recursive: true, force: true });
}

/** Where a node was to keep its data says nothing of what is there now: somebody else's files, or another node's. */
async function refuseForeign(victims: readonly Victim[]): Promise<void> {
  for (const victim of victims.filter(isElsewhere)) {
    const { nodeId, folder, dataDir } = victim;
    if (contentsOf(dataDir).length === 0 || (await ownerOf(dataDir)) === nodeId) continue;
    throw new OttlaError(
      "DATA_DIR_FOREIGN",
      `${dataDir}, where node ${nodeId} was to keep its data, holds something else`,
      {
        hint: `look at it; without ${dataDirNoteOf(folder)} only what is in ${folder} is deleted`,
      },
    );
  }
}

/** The node whose data this is; undefined: nobody's that can be read. */
async function ownerOf(dataDir: string): Promise<number | undefined> {
  const path = join(dataDir, SUPERBLOCK);
  if (!existsSync(path)) return undefined;
  return readSuperblockAt({ files: createFiles(), checksum: createChecksum() }, path).then(
    ({ block }) => block.nodeId,
    () => undefined,
  );
}

function unknownNode(nodeId: number, present: readonly number[], dataDir: string): CommandFailure {
  const message = `there is nothing of a node ${nodeId} in ${dataDir}`;
  const hint = present.length === 0 ? "--data-dir names another directory" : `its nodes are ${present.join(", ")}`;
  return new CommandFailure({ code: "UNKNOWN_NODE", message, hint, exitCode: EXIT.NOT_FOUND });
}

function refuseRunning(state: ClusterState | undefined, victims: readonly Victim[], isAll: boolean): void {
  const running = (state?.nodes ?? [])
    .filter(({ nodeId }) => victims.some((victim) => victim.nodeId === nodeId))
    .filter((node) => isAlive(node.process));
  const hasLauncher = isAll && state !== undefined && isAlive(state.launcher);
  if (running.length === 0 && !hasLauncher) return;
  const [first] = running;
  const hint = isAll || first === undefined ? "ottla cluster down" : `ottla cluster kill ${first.nodeId}`;
  const message =
    first === undefined ? "the cluster's launcher runs" : `node ${first.nodeId} runs (pid ${first.process.pid})`;
  throw stillInUse(message, `${hint} first`);
}

function stillInUse(message: string, hint: string): CommandFailure {
  return new CommandFailure({ code: "STILL_RUNNING", message, hint, exitCode: EXIT.FAILED });
}

/** Before anything is deleted: all of it or nothing. The lock finds also a process that no launcher started. */
async function claimAll(victims: readonly Victim[]): Promise<void> {
  const held: (() => Promise<void>)[] = [];
  for (const { nodeId, dataDir } of victims) {
    if (!existsSync(dataDir)) continue;
    const lock = await lockDirectory(dataDir);
    if (lock.kind === "acquired") held.push(() => lock.release());
    else {
      for (const release of held) await release();
      throw stillInUse(`the data of node ${nodeId} is used by a process (pid ${lock.ownerPid})`, "stop it first");
    }
  }
}

function sizeOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return 0;
  if (!stat.isDirectory()) return stat.size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}
