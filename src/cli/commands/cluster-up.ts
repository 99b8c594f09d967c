// ottla cluster up: the launcher in the foreground, or with --detach in the background as the parent that the nodes keep.
import { existsSync } from "node:fs";
import { relative } from "node:path";
import { packageFile } from "../../platform/package-files.ts";
import { NODES_MAX, planCluster } from "../cluster-file.ts";
import { environmentRemarks } from "../config-file.ts";
import type { Invocation } from "../invocation.ts";
import { parseInteger, parseWait } from "../values.ts";

export interface UpFlags {
  readonly config?: string;
  readonly nodes?: string;
  readonly anyPort?: boolean;
  readonly detach?: boolean;
  readonly dataDir?: string;
  readonly listeners?: string;
  readonly set?: readonly string[];
  /** Internal: this is the launcher that --detach started. */
  readonly background?: boolean;
}

/** Of --detach, as `cluster start` has it. */
const START_TIMEOUT = "30s";

export async function clusterUp({ flags, output }: Invocation<UpFlags>): Promise<number> {
  // The launcher in the background has its remarks said by its starter.
  if (flags.background !== true) for (const remark of environmentRemarks(process.env)) output.note(remark);
  const plan = planCluster({
    file: flags.config ?? defaultClusterFile(),
    dataDir: flags.dataDir,
    listeners: flags.listeners,
    nodeCount: flags.nodes === undefined ? undefined : parseInteger(flags.nodes, "-n", { min: 1, max: NODES_MAX }),
    ports: await portsFor(flags),
    pairs: flags.set ?? [],
    environment: process.env,
  });
  if (flags.background === true) return (await import("../launcher/background.ts")).runInBackground(plan, flags);
  const timeoutMs = parseWait(flags.timeout ?? START_TIMEOUT, "--timeout");
  if (flags.detach === true)
    return (await import("../launcher/background.ts")).startInBackground(plan, output, timeoutMs);
  const { ForegroundSession } = await import("../launcher/foreground.ts");
  return await new ForegroundSession(plan, output, flags).run();
}

/** The launcher in the background draws them itself, close before it uses them. */
async function portsFor(flags: UpFlags): Promise<number[] | undefined> {
  if (flags.anyPort !== true) return undefined;
  return await (await import("../free-ports.ts")).drawFreePorts(NODES_MAX);
}

function defaultClusterFile(): string {
  const example = packageFile("cluster.example.json");
  return existsSync("cluster.json") ? "cluster.json" : relative(process.cwd(), example);
}
