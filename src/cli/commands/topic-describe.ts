// ottla topic describe: partitions, their replicas and how far those are; settings of topics.
import type { Admin, PartitionState, ReadOptions, TopicInfo } from "../../client/types.ts";
import { failureOfPartitions } from "../../client/unreadable.ts";
import { timeoutOf } from "../client.ts";
import { failureOf } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { Table } from "../output.ts";
import { stateOfPartition } from "../partition-state.ts";
import { CONFIG_COLUMNS, configRows } from "./config-changes.ts";
import { controllerRemark } from "./old-metadata.ts";
import { eachName, stateOf, topicSummary } from "./topic.ts";

export interface DescribeFlags {
  readonly configs?: boolean;
  readonly replicas?: boolean;
  readonly linearizable?: boolean;
}

/** Without --timeout nobody should wait long for leaders that are down: the rest is worth seeing at once. */
const LEADERS_TIMEOUT_MS = 2_000;

export async function topicDescribe(invocation: Invocation<DescribeFlags>): Promise<number> {
  const { args, flags, output } = invocation;
  const read = { linearizable: flags.linearizable === true, timeoutMs: timeoutOf(flags) };
  if (flags.configs === true) return describeSettings(invocation, read);
  const rows: string[][] = [];
  const exitCode = await eachName(args, { flags, output }, async (admin, name) => {
    const topic = await admin.describeTopic(name, read);
    const remark = name === args.at(-1) && !read.linearizable ? controllerRemark(admin, output) : undefined;
    // How far replicas are only the leaders know; without one the rest is still worth seeing.
    const partitions = await statesOf(admin, topic, invocation);
    await remark;
    if (output.isJson) return output.json("topic.describe", asJson(topic, partitions));
    const configs = Object.entries(topic.configs).map(([key, value]) => `${key}=${value}`);
    const unclean = partitions.filter(({ uncleanEpoch }) => uncleanEpoch >= 0);
    output.note(["topic", topic.name, "", "id", topic.topicId, "", stateOf(topic), "", ...configs].join(" ").trimEnd());
    if (unclean.length > 0) output.note(uncleanRemark(name, unclean));
    rows.push(...partitions.flatMap((partition) => rowsOf(name, partition, flags.replicas === true)));
  });
  // One table of all topics, so that a script reads one header.
  if (!output.isJson && rows.length > 0) output.table(tableOf(rows, flags.replicas === true));
  return exitCode;
}

function asJson(topic: TopicInfo, partitions: readonly PartitionState[]) {
  return {
    ...topicSummary(topic),
    maxMessageBytes: topic.maxMessageBytes,
    configs: topic.configs,
    partitions: partitions.map(({ unknown, ...partition }) => ({
      ...partition,
      state: stateOfPartition(partition),
      unknown: unknown === undefined ? null : { code: unknown.code, message: unknown.message },
    })),
  };
}

async function statesOf(
  admin: Admin,
  topic: TopicInfo,
  { flags, output }: Invocation<DescribeFlags>,
): Promise<readonly PartitionState[]> {
  const { name } = topic;
  const timeoutMs = flags.timeout === undefined ? LEADERS_TIMEOUT_MS : timeoutOf(flags);
  const states = await admin.describePartitions(name, { timeoutMs }).catch((thrown: unknown) => {
    output.note(`how far replicas are is not known: ${failureOf(thrown).message}`);
    return topic.partitions.map(unknownState);
  });
  const failures = states.flatMap(({ index, unknown }) =>
    unknown === undefined ? [] : [{ topic: name, partition: index, error: unknown }],
  );
  if (failures.length > 0) {
    const { message, hint } = failureOfPartitions(failures);
    output.note(
      `offsets are not known of ${message} (${hint.replaceAll("<topic>", name)}); what is shown of them may be old`,
    );
  }
  return states;
}

function uncleanRemark(topic: string, partitions: readonly PartitionState[]): string {
  const which = partitions.map(({ index, uncleanEpoch }) => `${topic}-${index} (in epoch ${uncleanEpoch})`).join(", ");
  return `an unclean election gave up records of ${which}`;
}

const NOT_KNOWN = { startOffset: null, highWatermark: null, endOffset: null, durableEnd: null, lag: null };

function unknownState(partition: TopicInfo["partitions"][number]): PartitionState {
  const progress = partition.replicas.map((nodeId) => {
    return { ...NOT_KNOWN, nodeId, isInSync: partition.isr.includes(nodeId), caughtUpMsAgo: null, lastEpoch: null };
  });
  return { ...partition, ...NOT_KNOWN, progress };
}

const PARTITION_COLUMNS = [
  "TOPIC",
  "PARTITION",
  "LEADER",
  "EPOCH",
  "VERSION",
  "REPLICAS",
  "ISR",
  "ELR",
  "MIN",
  "START",
  "HW",
  "END",
  "DURABLE",
  "LAG",
  "STATE",
];
const REPLICA_COLUMNS = ["TOPIC", "PARTITION", "REPLICA", "ROLE", "STATE", "END", "DURABLE", "LAG", "BEHIND"];

const tableOf = (rows: readonly string[][], isByReplica: boolean): Table =>
  isByReplica
    ? { headers: REPLICA_COLUMNS, rows, right: [1, 2, 5, 6, 7, 8] }
    : { headers: PARTITION_COLUMNS, rows, right: [1, 2, 3, 4, 8, 9, 10, 11, 12], spare: SPARE_COLUMNS };

/** What a narrow terminal can do without, the first of them first. */
const SPARE_COLUMNS = ["VERSION", "START", "DURABLE", "MIN", "EPOCH"];

const shown = (value: number | null, unit = "") => (value === null || value < 0 ? "-" : `${value}${unit}`);
const listed = (nodeIds: readonly number[]) => (nodeIds.length === 0 ? "-" : nodeIds.join(","));

function rowsOf(topic: string, partition: PartitionState, isByReplica: boolean): string[][] {
  return isByReplica ? replicaRows(topic, partition) : [partitionRow(topic, partition)];
}

function partitionRow(topic: string, partition: PartitionState): string[] {
  const { index, leader, leaderEpoch, partitionEpoch, replicas, isr, elr, minIsr, progress } = partition;
  const followers = progress.filter(({ nodeId }) => nodeId !== leader);
  return [
    topic,
    String(index),
    leader < 0 ? "none" : String(leader),
    shown(leaderEpoch),
    shown(partitionEpoch),
    listed(replicas),
    listed(isr),
    listed(elr),
    shown(minIsr),
    shown(partition.startOffset),
    shown(partition.highWatermark),
    shown(partition.endOffset),
    shown(partition.durableEnd),
    followers.length === 0 ? "-" : followers.map(({ nodeId, lag }) => `${nodeId}:${shown(lag)}`).join(","),
    stateOfPartition(partition),
  ];
}

function replicaRows(topic: string, { index, leader, elr, progress }: PartitionState): string[][] {
  return progress.map(({ nodeId, isInSync, endOffset, durableEnd, lag, caughtUpMsAgo }) => [
    topic,
    String(index),
    String(nodeId),
    nodeId === leader ? "leader" : leader < 0 ? "-" : "follower",
    isInSync ? "in-sync" : elr.includes(nodeId) ? "eligible" : leader < 0 ? "incomplete" : "behind",
    shown(endOffset),
    shown(durableEnd),
    shown(lag),
    nodeId === leader ? "-" : shown(caughtUpMsAgo, "ms"),
  ]);
}

async function describeSettings({ args, flags, output }: Invocation, read: ReadOptions): Promise<number> {
  const rows: string[][] = [];
  const exitCode = await eachName(args, { flags, output }, async (admin, name) => {
    const configs = await admin.describeConfigs({ topic: name }, read);
    if (output.isJson) output.json("topic.describe", { name, configs });
    else rows.push(...configRows([name], configs));
  });
  if (!output.isJson && rows.length > 0) output.table({ headers: ["TOPIC", ...CONFIG_COLUMNS], rows });
  return exitCode;
}
