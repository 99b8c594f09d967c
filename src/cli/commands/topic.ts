// ottla topic create|ls|describe|alter|delete.
import type {
  Admin,
  Client,
  CreateTopicOptions,
  PartitionOffsets,
  ReadOptions,
  TopicInfo,
} from "../../client/types.ts";
import { failureOfPartitions } from "../../client/unreadable.ts";
import { OttlaError } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { topicNameFault } from "../../model/topic-name.ts";
import { timeoutOf, withClient } from "../client.ts";
import { CommandFailure, failureOf } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import type { GlobalFlags } from "../output.ts";
import { askYesNo } from "../question.ts";
import { controllerRemark } from "./old-metadata.ts";
import { counted, parseInteger, parsePair } from "../values.ts";
import { type AlterFlags, alteredText, changesOf, CONFIG_COLUMNS, configRows } from "./config-changes.ts";

export interface CreateFlags {
  readonly partitions?: string;
  readonly replicationFactor?: string;
  readonly config?: readonly string[];
  readonly ifNotExists?: boolean;
}

function createOptions(flags: CreateFlags): CreateTopicOptions {
  const configs = Object.fromEntries((flags.config ?? []).map((text) => parsePair(text, "-c")));
  return {
    configs,
    ifNotExists: flags.ifNotExists === true,
    ...(flags.partitions === undefined
      ? {}
      : { partitions: parseInteger(flags.partitions, "--partitions", { min: 1 }) }),
    ...(flags.replicationFactor === undefined
      ? {}
      : { replicationFactor: parseInteger(flags.replicationFactor, "--replication-factor", { min: 1, max: 32_767 }) }),
  };
}

export async function topicCreate({ args, flags, output }: Invocation<CreateFlags>): Promise<number> {
  const options = createOptions(flags);
  return eachName(args, { flags, output }, async (admin, name) => {
    const topic = await admin
      .createTopic(name, { ...options, timeoutMs: timeoutOf(flags) })
      .catch((thrown: unknown) => {
        throw withCreateHint(thrown, name);
      });
    if (output.isJson)
      output.json("topic.create", { topic: topic.name, topicId: topic.topicId, partitions: topic.partitions.length });
    else output.line(`${topic.name}\t${counted(topic.partitions.length, "partition")}`);
  });
}

/** A name that is well formed was refused because of another topic's. */
function withCreateHint(thrown: unknown, name: string): unknown {
  if (
    !(thrown instanceof OttlaError) ||
    thrown.code !== "INVALID_TOPIC_EXCEPTION" ||
    topicNameFault(name) !== undefined
  )
    return thrown;
  const hint = "choose a name that differs from that topic's in more than . and _";
  return new OttlaError(thrown.code, thrown.message, { cause: thrown, hint });
}

/** Runs an action for each name; a failed one is told and does not keep the others from being done. */
async function eachName(
  names: readonly string[],
  { flags, output }: Pick<Invocation, "flags" | "output">,
  act: (admin: Admin, name: string, client: Client) => Promise<void>,
): Promise<number> {
  return withClient(flags as GlobalFlags, async (client) => {
    const admin = client.admin();
    let exitCode: number = EXIT.OK;
    for (const name of names) {
      try {
        await act(admin, name, client);
      } catch (thrown) {
        if (names.length === 1) throw thrown;
        const failure = failureOf(thrown);
        const isNamed = failure.message.split(/[\s:,;]+/).includes(name);
        output.failure({ ...failure, message: isNamed ? failure.message : `${name}: ${failure.message}` });
        exitCode = EXIT.FAILED;
      }
    }
    return exitCode;
  });
}

export async function topicList({ flags, output }: Invocation): Promise<number> {
  return withClient(flags, async (client) => {
    const topics = await client.admin().listTopics({ timeoutMs: timeoutOf(flags) });
    await controllerRemark(client.admin(), output, timeoutOf(flags));
    if (output.isJson) output.json("topic.ls", { topics: topics.map(topicSummary) });
    else {
      const rows = topics.map((topic) => [
        topic.name,
        String(topic.partitions.length),
        String(replicasOf(topic)),
        stateOf(topic),
      ]);
      output.table({ headers: ["TOPIC", "PARTITIONS", "REPLICAS", "STATE"], rows, right: [1, 2] });
    }
    return EXIT.OK;
  });
}

const replicasOf = (topic: TopicInfo) => topic.partitions[0]?.replicas.length ?? 0;

function stateOf(topic: TopicInfo): string {
  if (topic.isDeleting) return "deleting";
  return topic.partitions.every((partition) => partition.leader >= 0) ? "ok" : "leaderless";
}

function topicSummary(topic: TopicInfo) {
  const { name, topicId, isDeleting } = topic;
  return {
    name,
    topicId,
    partitions: topic.partitions.length,
    replicas: replicasOf(topic),
    isDeleting,
    state: stateOf(topic),
  };
}

export interface DescribeFlags {
  readonly configs?: boolean;
  readonly linearizable?: boolean;
}

export async function topicDescribe(invocation: Invocation<DescribeFlags>): Promise<number> {
  const { args, flags, output } = invocation;
  const read = { linearizable: flags.linearizable === true, timeoutMs: timeoutOf(flags) };
  if (flags.configs === true) return describeSettings(invocation, read);
  const rows: string[][] = [];
  const exitCode = await eachName(args, { flags, output }, async (admin, name) => {
    const topic = await admin.describeTopic(name, read);
    // Offsets come from the leaders; without one the rest is still worth seeing.
    const byPartition = await knownOffsets(admin, name, invocation);
    if (name === args.at(-1) && !read.linearizable) await controllerRemark(admin, output, read.timeoutMs);
    if (output.isJson) {
      const partitions = topic.partitions.map((partition) => ({ ...partition, ...byPartition.get(partition.index) }));
      output.json("topic.describe", {
        ...topicSummary(topic),
        maxMessageBytes: topic.maxMessageBytes,
        configs: topic.configs,
        partitions,
      });
      return;
    }
    const configs = Object.entries(topic.configs).map(([key, value]) => `${key}=${value}`);
    output.note(
      `topic ${topic.name}  id ${topic.topicId}  ${stateOf(topic)}${configs.length > 0 ? `  ${configs.join(" ")}` : ""}`,
    );
    rows.push(...partitionRows(topic, byPartition));
  });
  // One table of all topics, so that a script reads one header.
  if (!output.isJson && rows.length > 0) output.table({ headers: DESCRIBE_COLUMNS, rows, right: [1, 2, 3, 6, 7] });
  return exitCode;
}

type KnownOffsets = ReadonlyMap<number, Pick<PartitionOffsets, "startOffset" | "endOffset">>;

async function knownOffsets(admin: Admin, name: string, { flags, output }: Invocation): Promise<KnownOffsets> {
  const offsets = await admin
    .offsets(name, { partial: true, timeoutMs: timeoutOf(flags) })
    .catch((thrown: unknown): PartitionOffsets[] => {
      output.note(`offsets are not known: ${failureOf(thrown).message}`);
      return [];
    });
  const failures = offsets.flatMap(({ partition, error }) =>
    error === undefined ? [] : [{ topic: name, partition, error }],
  );
  if (failures.length > 0) {
    const { message, hint } = failureOfPartitions(failures);
    output.note(`offsets are not known of ${message} (${hint.replaceAll("<topic>", name)})`);
  }
  const known = offsets.filter(({ error }) => error === undefined);
  return new Map(known.map(({ partition, startOffset, endOffset }) => [partition, { startOffset, endOffset }]));
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

export async function topicAlter({ args, flags, output }: Invocation<AlterFlags>): Promise<number> {
  const changes = changesOf(flags);
  const validateOnly = flags.dryRun === true;
  return eachName(args, { flags, output }, async (admin, name) => {
    await admin.alterTopicConfigs(name, changes, { validateOnly, timeoutMs: timeoutOf(flags) });
    if (output.isJson) output.json("topic.alter", { topic: name, changes, isDone: !validateOnly });
    else output.line(`${name}\t${alteredText(changes, validateOnly)}`);
  });
}

const DESCRIBE_COLUMNS = ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END"];

function partitionRows({ name, partitions }: TopicInfo, offsets: KnownOffsets): string[][] {
  return partitions.map((partition) => [
    name,
    String(partition.index),
    partition.leader < 0 ? "none" : String(partition.leader),
    String(partition.leaderEpoch),
    partition.replicas.join(","),
    partition.isr.join(","),
    String(offsets.get(partition.index)?.startOffset ?? "-"),
    String(offsets.get(partition.index)?.endOffset ?? "-"),
  ]);
}

export interface DeleteFlags {
  readonly wait?: boolean;
  readonly yes?: boolean;
}

export async function topicDelete({ args, flags, output }: Invocation<DeleteFlags>): Promise<number> {
  if (flags.yes !== true && (await confirmDelete(args)) === "interrupted") return EXIT.SIGINT;
  return eachName(args, { flags, output }, async (admin, name) => {
    await deleteTopic(admin, name, { wait: flags.wait === true, timeoutMs: timeoutOf(flags) });
    if (output.isJson) output.json("topic.delete", { topic: name, isGone: flags.wait === true });
    else output.line(`${name}\t${flags.wait === true ? "deleted" : "deleting"}`);
  });
}

async function deleteTopic(
  admin: Admin,
  name: string,
  options: { readonly wait: boolean; readonly timeoutMs: number },
): Promise<void> {
  const signal = AbortSignal.timeout(options.timeoutMs);
  try {
    await admin.deleteTopic(name, { wait: options.wait, signal, timeoutMs: options.timeoutMs });
  } catch (thrown) {
    const isMarked = thrown instanceof OttlaError && (thrown.code === "ABORTED" || thrown.outcome === "appended");
    if (!isMarked) throw thrown;
    const message = `${name} is marked for deletion but was still there after ${options.timeoutMs} ms`;
    throw new CommandFailure({
      code: "REQUEST_TIMED_OUT",
      message,
      hint: "ottla topic ls shows when it is gone; its name is free then",
      exitCode: EXIT.UNREACHABLE,
    });
  }
}

/** Asks on a terminal; anywhere else deleting needs --yes. */
async function confirmDelete(names: readonly string[]): Promise<"yes" | "interrupted"> {
  const what = names.length === 1 ? `topic ${names[0]}` : `${names.length} topics (${names.join(", ")})`;
  const refused = (message: string) => {
    return new CommandFailure({ code: "NOT_CONFIRMED", message, hint: "add --yes", exitCode: EXIT.UNSAFE });
  };
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true)
    throw refused(`deleting ${what} loses all its records`);
  const streams = { input: process.stdin, output: process.stderr };
  const answer = await askYesNo(`Delete ${what} with all records? [y/N] `, streams);
  if (answer === "no") throw refused("not deleted");
  return answer;
}
