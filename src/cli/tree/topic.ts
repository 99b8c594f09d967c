// The verbs of `ottla topic`.
import type { Command } from "commander";
import { type Act, examples, gather } from "./act.ts";

export function addTopic(program: Command, act: Act): void {
  const topic = program.command("topic").description("create, list, describe, alter and delete topics");
  const create = topic
    .command("create")
    .argument("<name...>")
    .description("create topics")
    .option("-P, --partitions <n>", "partitions (default: the broker's num.partitions)")
    .option("-R, --replication-factor <n>", "copies of each partition")
    .option("-c, --config <key=value>", "a topic setting such as max.message.bytes=2MiB; repeatable", gather)
    .option("--if-not-exists", "no error when it exists")
    .addHelpText(
      "after",
      examples(
        "ottla topic create access-log -P 6",
        "ottla topic create big -c max.message.bytes=8MiB --if-not-exists",
      ),
    );
  act(create, async () => (await import("../commands/topic.ts")).topicCreate);
  const list = topic
    .command("ls")
    .alias("list")
    .description("list topics")
    .addHelpText("after", examples("ottla topic ls", "ottla topic ls --json | jq '.topics[].name'"));
  act(list, async () => (await import("../commands/topic.ts")).topicList);
  const describe = topic
    .command("describe")
    .argument("<name...>")
    .description("leader, replicas, in-sync replicas, epoch and offsets of each partition; settings that are its own")
    .option("--configs", "every setting in force, with where it comes from, in place of the partitions")
    .option("--linearizable", "ask the controller: nothing old")
    .addHelpText("after", examples("ottla topic describe access-log", "ottla topic describe access-log --configs"));
  act(describe, async () => (await import("../commands/topic.ts")).topicDescribe);
  const alter = topic
    .command("alter")
    .argument("<name...>")
    .description("change settings of topics while they are used; all of a topic's or none")
    .option("-c, --config <key=value>", "set it; repeatable", gather)
    .option("--delete-config <key>", "take it away: the broker's setting applies again; repeatable", gather)
    .option("--dry-run", "check it, change nothing")
    .addHelpText(
      "after",
      examples(
        "ottla topic alter access-log -c max.message.bytes=4MiB -c segment.bytes=256MiB",
        "ottla topic alter access-log --delete-config segment.bytes",
      ),
    );
  act(alter, async () => (await import("../commands/topic.ts")).topicAlter);
  const remove = topic
    .command("delete")
    .alias("rm")
    .argument("<name...>")
    .description("delete topics and all their records")
    .option("-w, --wait", "return when the names are free again")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", examples("ottla topic delete access-log", "ottla topic delete a b c --yes --wait"));
  act(remove, async () => (await import("../commands/topic.ts")).topicDelete);
}
