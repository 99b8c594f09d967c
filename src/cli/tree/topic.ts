// The verbs of `ottla topic`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addTopic(program: Command, act: Act): void {
  const topic = program.command("topic").description("create, list, describe, alter, trim and delete topics");
  addCreate(topic, act);
  addLooking(topic, act);
  addChanging(topic, act);
}

function addCreate(topic: Command, act: Act): void {
  const create = topic
    .command("create")
    .argument("<name...>")
    .description("create topics")
    .option("-P, --partitions <n>", "partitions (default: the broker's num.partitions)")
    .option("-R, --replication-factor <n>", "copies of each partition, on as many nodes (default: 3, or all brokers)")
    .option("-c, --config <key=value>", "a topic setting such as min.insync.replicas=2; repeatable", gather)
    .option("--if-not-exists", "no error when it exists")
    .addHelpText(
      "after",
      prose(`
min.insync.replicas is how many copies an acknowledged record of --acks all is on at least, and how many must be in sync for anything to be
written: by default a majority of the copies, 2 of 3. So 3 copies bear the loss of one node with writes going on, and of any one disk for good; 2 copies take no records while one of their nodes is down, unless min.insync.replicas is 1.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla topic create access-log -P 6",
        "ottla topic create orders -P 3 --replication-factor 3 -c min.insync.replicas=2",
        "ottla topic create big -c max.message.bytes=8MiB --if-not-exists",
      ),
    );
  act(create, async () => (await import("../commands/topic.ts")).topicCreate);
}

function addChanging(topic: Command, act: Act): void {
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
  const trim = topic
    .command("trim")
    .argument("<name>")
    .description("delete the oldest records of a topic, for good")
    .option(
      "--before <position>",
      "the first that stays: an offset, -N (the last N stay; -0: none), @time (ms, ISO date in UTC or @-7d), or end (none)",
    )
    .option("-P, --partitions <list>", "only these, e.g. 0,2-4")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      prose(`
Done when no replica on a node that is up has anything of them; one that is away deletes them when it is back. Only of topics whose cleanup.policy
has delete. --before has to be given: what goes is gone. -N counts the records of each partition that a consumer would see; beyond 10000 it counts
offsets, of which some have no record (compaction, what the broker writes for itself): then fewer may stay. What retention deletes by itself: ottla topic describe <name> --configs.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla topic trim access-log --before @-7d",
        "ottla topic trim access-log --before 120000 -P 0 --yes",
        "ottla topic trim access-log --before -1000",
      ),
    );
  act(trim, async () => (await import("../commands/topic-trim.ts")).topicTrim);
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

function addLooking(topic: Command, act: Act): void {
  const list = topic
    .command("ls")
    .alias("list")
    .description("list topics with their partitions, copies, and how many partitions lack one in sync")
    .addHelpText("after", examples("ottla topic ls", "ottla topic ls --json | jq '.topics[].name'"));
  act(list, async () => (await import("../commands/topic.ts")).topicList);
  const describe = topic
    .command("describe")
    .argument("<name...>")
    .description("leader, replicas, epochs, offsets and lag of each partition; settings that are its own")
    .option("--replicas", "a row for each replica: how far it is, and since when it is behind")
    .option("--configs", "every setting in force, with where it comes from, in place of the partitions")
    .option("--linearizable", "ask the controller: nothing old")
    .addHelpText(
      "after",
      prose(`
EPOCH of the leader, VERSION of the partition's record, ISR replicas in sync, ELR replicas that have all that was acknowledged and may lead when
no other is left, MIN in-sync replicas that a write needs. START to HW can be read; END is the leader's log, DURABLE what its disk has;
LAG records that each follower's disk lacks. "-" is not known: the leaders have 2 s to answer, or --timeout.
States: ok, under-replicated, below-min-isr (writes are refused), faulty, leaderless (until a replica of the ISR or ELR is up), lost (no
replica is left that has everything: ottla partition elect --help).`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla topic describe access-log",
        "ottla topic describe access-log --replicas",
        "ottla topic describe access-log --configs",
      ),
    );
  act(describe, async () => (await import("../commands/topic-describe.ts")).topicDescribe);
}
