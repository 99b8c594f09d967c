// ottla quorum unsafe-recover: for a cluster whose other voters have lost their disks for good. Makes a stopped node the only voter of
// the metadata, by its own log alone. What the others had agreed on and this one does not hold is given up.
import { resolve } from "node:path";
import { METADATA_SEGMENT_BYTES } from "../../broker/start-up.ts";
import { decodeConfiguration, encodeConfiguration } from "../../broker/quorum/codec.ts";
import { encodeCommand } from "../../metadata/codec.ts";
import { EPOCHS_RAISED_BY_RECOVERY } from "../../metadata/records.ts";
import { OttlaError } from "../../model/errors.ts";
import type { ClusterId } from "../../model/ids.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { createChecksum } from "../../platform/checksum.ts";
import { createClock } from "../../platform/clock.ts";
import { loadCodecs } from "../../platform/codecs.ts";
import { createEntropy } from "../../platform/entropy.ts";
import { createFiles } from "../../platform/files.ts";
import { readBootId } from "../../platform/host.ts";
import { createMetrics } from "../../platform/metrics.ts";
import { createTimers } from "../../platform/timers.ts";
import type { ReplicaId } from "../../raft/types.ts";
import type { RaftStore } from "../../storage/raft-types.ts";
import type { StorageDeps } from "../../storage/types.ts";
import { openStoppedNode, rewriteForUnsafeRecovery, type StoppedNode } from "../../storage/unsafe-recovery.ts";
import { stderrLogger } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { GlobalFlags, Output } from "../output.ts";
import { counted, parseInteger, UsageError } from "../values.ts";

export interface UnsafeRecoverFlags {
  readonly dataDir?: string;
  readonly node?: string;
  readonly yes?: boolean;
}

/** What the node's own log says. */
interface Survivor {
  readonly replicaId: ReplicaId;
  readonly clusterId: ClusterId;
  readonly nodeId: number;
  readonly term: number;
  /** Exclusive. */
  readonly end: number;
  readonly voters: readonly string[];
  /** Voters that are known to have acknowledged more than this log holds, with how far they were. */
  readonly ahead: readonly { readonly replicaId: string; readonly end: number }[];
}

export async function unsafeRecover({ flags, output }: Invocation<UnsafeRecoverFlags>): Promise<number> {
  if (flags.dataDir === undefined || flags.node === undefined)
    throw new UsageError(
      "--data-dir and --node are needed: which disk, and whose it is",
      "ottla quorum unsafe-recover --help",
    );
  const nodeId = parseInteger(flags.node, "--node", { min: 1, max: 65_535 });
  const directory = resolve(flags.dataDir);
  const node = await openStoppedNode(await storageDeps(flags), { directory, segmentBytes: METADATA_SEGMENT_BYTES });
  try {
    const survivor = survivorOf(node, nodeId, directory);
    if (flags.yes !== true) {
      describe(survivor, output);
      throw refusedWithoutYes(survivor);
    }
    const entry = await recover(node.store, survivor);
    if (output.isJson)
      output.json("quorum.unsafe-recover", { ...survivor, dataDir: directory, recoveredAt: entry.index });
    else
      output.line(
        `node ${nodeId} is the only voter now: at its next start it leads the metadata, as it knows it up to ${survivor.end}`,
      );
    for (const line of nextSteps(survivor)) output.note(line);
    return EXIT.OK;
  } finally {
    await node.close();
  }
}

async function storageDeps(flags: GlobalFlags): Promise<StorageDeps> {
  return {
    files: createFiles(),
    clock: createClock(),
    timers: createTimers(),
    checksum: createChecksum(),
    codecs: await loadCodecs(),
    entropy: createEntropy(),
    logger: stderrLogger({ verbosity: flags.quiet === true ? -1 : (flags.verbose ?? 0), isJson: flags.json === true }),
    metrics: createMetrics({ processMetrics: false }),
    bootId: readBootId(),
  };
}

function survivorOf({ identity, store }: StoppedNode, nodeId: number, directory: string): Survivor {
  if (identity.nodeId !== nodeId) {
    const hint = `add --node ${identity.nodeId} when that is the one meant`;
    throw new UsageError(`${directory} is the disk of node ${identity.nodeId}, not of node ${nodeId}`, hint);
  }
  const { log, snapshot } = store.restored;
  const configured =
    log.entries.filter(({ kind }) => kind === "configuration").at(-1)?.bytes ?? snapshot?.configuration;
  if (store.isEmpty || configured === undefined) {
    const hint = "choose a node that was a voter; one that never belonged to a cluster is simply started";
    throw new OttlaError("INVALID_REQUEST", `${directory}: its metadata log is empty, there is nothing to recover`, {
      hint,
    });
  }
  const { voters, clusterId } = decodeConfiguration(configured, `${directory}: metadata log`);
  const replicaId = `${nodeId}:${identity.directoryId}` as ReplicaId;
  const end = log.start + log.entries.length;
  const ahead = [...store.marks]
    .filter(([other, mark]) => other !== replicaId && mark.end > end)
    .map(([other, mark]) => ({ replicaId: other, end: mark.end }));
  return { replicaId, clusterId, nodeId, term: log.entries.at(-1)?.term ?? log.startTerm, end, voters, ahead };
}

async function recover(store: RaftStore, { replicaId, clusterId }: Survivor) {
  const configuration = encodeConfiguration({ voters: [replicaId], learners: [] }, clusterId);
  const timestampMs = createClock().wallMs();
  const record = {
    type: "unsafe-recovery",
    version: 1,
    epochsRaisedBy: EPOCHS_RAISED_BY_RECOVERY,
    timestampMs,
  } as const;
  return await rewriteForUnsafeRecovery(store, configuration, encodeCommand([record], 1));
}

const nodeIdOf = (replicaId: string) => Number.parseInt(replicaId, 10);

function describe({ nodeId, clusterId, term, end, voters, ahead }: Survivor, output: Output): void {
  const lines = [
    `node ${nodeId} of cluster ${clusterId}: its metadata log ends at ${end}, last term ${term}`,
    `voters by that log: ${voters.map((voter) => `node ${nodeIdOf(voter)}`).join(", ")}`,
    "Choose, among the nodes that still have their disks, the one with the highest last term, and of those the highest end.",
    "Lost: every change of topics, configuration and partitions that the others had agreed on beyond that end.",
    ...ahead.map(
      (other) =>
        `Known to be lost: node ${nodeIdOf(other.replicaId)} had agreed up to ${other.end}, ${counted(other.end - end, "entry", "entries")} more.`,
    ),
    "Records of partitions that live on lost disks are lost with them, whatever is done here.",
    "If another voter still runs, or can be started, do not do this: two clusters would come of it.",
  ];
  for (const line of lines) output.note(line);
}

function refusedWithoutYes({ nodeId }: Survivor): CommandFailure {
  return new CommandFailure({
    code: "NOT_CONFIRMED",
    message: `this makes node ${nodeId} the only voter of the metadata and gives up what only the others knew`,
    hint: "first try everything to start the other voters; add --yes when their disks are lost for good",
    exitCode: EXIT.UNSAFE,
  });
}

function nextSteps({ nodeId, voters }: Survivor): string[] {
  const others = voters.map(nodeIdOf).filter((other) => other !== nodeId);
  const ids = others.join(" ");
  const own =
    "Then: start this node (ottla cluster up, or ottla cluster start, or ottla server start) and look at ottla topic ls.";
  if (others.length === 0) return [own];
  return [
    own,
    `Never start ${others.length === 1 ? "node" : "nodes"} ${others.join(", ")} on an old disk again: wipe it first (ottla cluster wipe ${ids} --yes).`,
    `Wiped, they join as observers; let them vote with ${others.map((other) => `ottla quorum add ${other}`).join(", ")}.`,
  ];
}
