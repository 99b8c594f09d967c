// ottla topic create|ls|alter|delete; describe is in topic-describe.ts.
import type { Admin, Client, CreateTopicOptions, TopicInfo } from "../../client/types.ts";
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
import { stateOfPartition, worstOf } from "../partition-state.ts";
import { type AlterFlags, alteredText, changesOf, eachOnce } from "./config-changes.ts";

export interface CreateFlags {
  readonly partitions?: string;
  readonly replicationFactor?: string;
  readonly config?: readonly string[];
  readonly ifNotExists?: boolean;
}

function createOptions(flags: CreateFlags): CreateTopicOptions {
  const configs = eachOnce((flags.config ?? []).map((text) => parsePair(text, "-c")));
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
      output.json("topic.create", {
        topic: topic.name,
        topicId: topic.topicId,
        partitions: topic.partitions.length,
        replicas: replicasOf(topic),
      });
    else {
      const sizes = `${counted(topic.partitions.length, "partition")}\t${counted(replicasOf(topic), "replica")}`;
      output.line(`${topic.name}\t${sizes}`);
    }
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
export async function eachName(
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
    await controllerRemark(client.admin(), output);
    if (output.isJson) output.json("topic.ls", { topics: topics.map(topicSummary) });
    else {
      const rows = topics.map((topic) => [
        topic.name,
        String(topic.partitions.length),
        String(replicasOf(topic)),
        String(underReplicatedOf(topic)),
        stateOf(topic),
      ]);
      const headers = ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "STATE"];
      output.table({ headers, rows, right: [1, 2, 3] });
    }
    return EXIT.OK;
  });
}

const replicasOf = (topic: TopicInfo) => topic.partitions[0]?.replicas.length ?? 0;
const underReplicatedOf = ({ partitions }: TopicInfo) =>
  partitions.filter(({ isr, replicas }) => isr.length < replicas.length).length;

/** That of its worst partition. */
export function stateOf(topic: TopicInfo): string {
  return topic.isDeleting ? "deleting" : worstOf(topic.partitions.map(stateOfPartition));
}

export function topicSummary(topic: TopicInfo) {
  const { name, topicId, isDeleting } = topic;
  return {
    name,
    topicId,
    partitions: topic.partitions.length,
    replicas: replicasOf(topic),
    underReplicated: underReplicatedOf(topic),
    isDeleting,
    state: stateOf(topic),
  };
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
