// ottla broker ls|describe|alter|unregister.
import type { Admin, BrokerInfo, BrokerName, ClusterInfo, TopicInfo } from "../../client/types.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { timeoutOf, withClient } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { parseInteger } from "../values.ts";
import { type AlterFlags, alteredText, changesOf, tellConfigs } from "./config-changes.ts";
import { OLD_METADATA } from "./old-metadata.ts";

interface Row extends BrokerInfo {
  /** Partitions that it leads, and that it has a copy of. */
  readonly leaders: number;
  readonly replicas: number;
  /** Those of its copies that are in sync. */
  readonly inSync: number;
}

export async function brokerList({ flags, output }: Invocation): Promise<number> {
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const timeoutMs = timeoutOf(flags);
    const cluster = await admin.describeCluster({ timeoutMs });
    const rows = rowsOf(cluster, await admin.listTopics({ timeoutMs }));
    if (cluster.controllerId < 0) output.note(OLD_METADATA);
    if (output.isJson) output.json("broker.ls", { ...headOf(cluster), brokers: rows });
    else {
      output.table({
        headers: ["BROKER", "ADDRESS", "ROLE", "STATE", "LEADERS", "IN SYNC"],
        rows: rows.map((row) => [
          String(row.nodeId),
          row.address,
          row.role,
          stateOf(row),
          String(row.leaders),
          `${row.inSync}/${row.replicas}`,
        ]),
        right: [0, 4],
      });
    }
    return EXIT.OK;
  });
}

const headOf = ({ clusterId, controllerId, metadataVersion }: ClusterInfo) => ({
  clusterId,
  controllerId: controllerId < 0 ? null : controllerId,
  metadataVersion,
});

const stateOf = ({ isFenced }: BrokerInfo) => (isFenced ? "fenced" : "ok");

function rowsOf({ brokers }: ClusterInfo, topics: readonly TopicInfo[]): Row[] {
  const leaders = new Map<number, number>();
  const replicas = new Map<number, number>();
  const inSync = new Map<number, number>();
  const count = (counts: Map<number, number>, nodeId: number) => counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
  for (const partition of topics.flatMap((topic) => topic.partitions)) {
    count(leaders, partition.leader);
    for (const nodeId of partition.replicas) count(replicas, nodeId);
    for (const nodeId of partition.isr) count(inSync, nodeId);
  }
  return brokers
    .map((broker) => ({
      ...broker,
      leaders: leaders.get(broker.nodeId) ?? 0,
      replicas: replicas.get(broker.nodeId) ?? 0,
      inSync: inSync.get(broker.nodeId) ?? 0,
    }))
    .toSorted((left, right) => left.nodeId - right.nodeId);
}

export async function brokerDescribe({ args, flags, output }: Invocation): Promise<number> {
  const name = brokerNameOf(args[0] ?? "");
  return withClient(flags, async (client) => {
    const admin = client.admin();
    const timeoutMs = timeoutOf(flags);
    const row = name === "default" ? undefined : await find(admin, name, timeoutMs);
    const configs = await admin.describeConfigs({ broker: name }, { timeoutMs });
    if (output.isJson) output.json("broker.describe", { ...(row ?? { broker: "default" }), configs });
    else {
      if (row !== undefined) output.note(`broker ${row.nodeId}  ${row.address}  ${row.role}  ${stateOf(row)}`);
      tellConfigs(output, configs);
    }
    return EXIT.OK;
  });
}

async function find(admin: Admin, nodeId: number, timeoutMs: number): Promise<Row> {
  const rows = rowsOf(await admin.describeCluster({ timeoutMs }), await admin.listTopics({ timeoutMs }));
  const found = rows.find((row) => row.nodeId === nodeId);
  if (found !== undefined) return found;
  throw new CommandFailure({
    code: "BROKER_ID_NOT_REGISTERED",
    message: `there is no broker ${nodeId}, but ${rows.map((row) => row.nodeId).join(", ")}`,
    hint: "ottla broker ls shows the brokers",
    exitCode: EXIT.NOT_FOUND,
  });
}

export async function brokerAlter({ args, flags, output }: Invocation<AlterFlags>): Promise<number> {
  const name = brokerNameOf(args[0] ?? "");
  const changes = changesOf(flags);
  const validateOnly = flags.dryRun === true;
  return withClient(flags, async (client) => {
    await client.admin().alterBrokerConfigs(name, changes, { validateOnly, timeoutMs: timeoutOf(flags) });
    if (output.isJson) output.json("broker.alter", { broker: name, changes, isDone: !validateOnly });
    else output.line(`${name}\t${alteredText(changes, validateOnly)}`);
    return EXIT.OK;
  });
}

interface UnregisterFlags {
  readonly yes?: boolean;
  readonly force?: boolean;
}

export async function brokerUnregister({ args, flags, output }: Invocation<UnregisterFlags>): Promise<number> {
  const nodeId = parseInteger(args[0] ?? "", "a broker", { min: 0, max: 2 ** 31 - 1 });
  const force = flags.force === true;
  if (flags.yes !== true) {
    const what = force ? "and all partitions that only it has are given up" : "and is forgotten";
    const message = `broker ${nodeId} goes off the list ${what}`;
    throw new CommandFailure({ code: "NOT_CONFIRMED", message, hint: "add --yes", exitCode: EXIT.UNSAFE });
  }
  return withClient(flags, async (client) => {
    await client.admin().unregisterBroker(nodeId, { force, timeoutMs: timeoutOf(flags) });
    if (output.isJson) output.json("broker.unregister", { broker: nodeId, isForced: force });
    else output.line(`${nodeId}\tunregistered`);
    return EXIT.OK;
  });
}

function brokerNameOf(text: string): BrokerName {
  return text === "default" ? "default" : parseInteger(text, "a broker (or default)", { min: 0, max: 2 ** 31 - 1 });
}
