// The command tree: names, flags, help and examples. Each action loads its code only when it runs, so that --help stays fast.
import { Command, CommanderError, Option } from "commander";
import { EXIT } from "../model/exit-codes.ts";
import type { Invocation } from "./invocation.ts";
import { createOutput, type GlobalFlags } from "./output.ts";
import { UsageError } from "./values.ts";
import { VERSION } from "./version.ts";

const EXIT_CODES = `
Exit codes: 0 ok, 1 failed (log verify and log dump: damage found), 2 usage or configuration, also refused by the broker as such,
  3 no broker reached or timed out, 4 not found, 6 refused without --yes, 10 unhealthy, 20 a node found damage, 30 disk failed,
  31 disk failed in recovery, 32 data directory refused, 70 bug, 129 terminal closed, 130 Ctrl-C, 143 SIGTERM.`;

const TRY = `
Examples:
  $ ottla cluster up                                   # a local cluster in ./ottla-data, Ctrl-C stops it
  $ ottla topic create access-log --partitions 6
  $ cat access.log | ottla produce access-log
  $ ottla consume access-log -o start -e | head
${EXIT_CODES}`;

/** What a command's action gets to fill its exit code in. */
interface Outcome {
  exitCode: number;
}

type Run<Flags> = (invocation: Invocation<Flags>) => Promise<number>;
type Act = <Flags>(command: Command, load: () => Promise<Run<Flags>>) => void;

/** Parses the arguments and runs the command; resolves to its exit code. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  const outcome: Outcome = { exitCode: EXIT.OK };
  const program = buildProgram(outcome);
  try {
    await program.parseAsync([...argv], { from: "user" });
    return outcome.exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return exitOfCommander(error);
    throw error;
  }
}

function exitOfCommander(error: CommanderError): number {
  if (error.exitCode === 0) return EXIT.OK;
  // A group without a verb has printed its help on stderr.
  if (error.code === "commander.help") return EXIT.USAGE;
  const [message = "", suggestion = ""] = error.message.replace(/^error: /, "").split("\n");
  const hint = suggestion.replace(/^\(Did you mean (.*)\?\)$/, "did you mean $1?");
  throw new UsageError(message, hint === "" ? "add --help to see what the command takes" : hint);
}

export function buildProgram(outcome: Outcome = { exitCode: EXIT.OK }): Command {
  const program = new Command("ottla");
  program
    .description("Ottla: a replicated, partitioned log broker.")
    .exitOverride()
    .configureOutput({ outputError: () => undefined })
    .showSuggestionAfterError(true)
    .allowExcessArguments(false)
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .option(
      "-b, --bootstrap <host[:port],...>",
      "brokers to ask first, port 7070 unless given (env OTTLA_BOOTSTRAP; default 127.0.0.1)",
    )
    .addOption(new Option("--bootstrap-server <host[:port],...>", "as --bootstrap").hideHelp())
    .option("--json", "print JSON: data on stdout, errors and remarks on stderr")
    .option(
      "--timeout <duration>",
      "how long to wait for a broker: 500ms, 5s; 5 is 5s (default 3s to connect, 10s for the rest)",
    )
    .option("--no-color", "no colours (also NO_COLOR)")
    .option("-q, --quiet", "no remarks and no progress on stderr")
    .addOption(new Option("-v, --verbose", "say more; twice: stacks of errors"))
    .addHelpText("after", TRY);
  const verbosity = { count: 0 };
  program.on("option:verbose", () => {
    verbosity.count++;
  });
  const act: Act = (command, load) => {
    command.action(async () => {
      const flags = { ...command.optsWithGlobals<GlobalFlags>(), verbose: verbosity.count };
      const run = await load();
      outcome.exitCode = await run({ args: command.args, flags: flags as never, output: createOutput(flags) });
    });
  };
  addCluster(program, act);
  addServer(program, act);
  addTopic(program, act);
  addData(program, act);
  addLog(program, act);
  addSelfTeaching(program, act);
  return program;
}

const examples = (...lines: readonly string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;

/** A repeatable flag. */
const gather = (value: string, before: readonly string[] = []) => [...before, value];

function addCluster(program: Command, act: Act): void {
  const cluster = program
    .command("cluster")
    .description("run, see and stop a cluster on this machine; ask any cluster for its health");
  const dataDir = "--data-dir <dir>";
  const up = cluster
    .command("up")
    .description("start the nodes of a cluster file and stay with them; Ctrl-C stops them in order, twice kills them")
    .option("-c, --config <file>", "cluster file (default: ./cluster.json, else the example that comes with Ottla)")
    .option("-d, --detach", "return when the cluster serves; `cluster down` stops it")
    .option(dataDir, "where everything is kept (default ./ottla-data)")
    .option("--listeners <address>", "address of the node of a one-node cluster file, such as ws://127.0.0.1:7171")
    .option("-X, --set <key=value>", "set a configuration key of every node; repeatable", gather)
    .addOption(new Option("--background").hideHelp())
    .addHelpText(
      "after",
      "\nThe example file sets num.partitions to 3, so that `topic create` without -P makes 3 partitions.",
    )
    .addHelpText(
      "after",
      examples(
        "ottla cluster up",
        "ottla cluster up -c my-cluster.json --detach",
        "ottla cluster up -X segment.bytes=64MiB --listeners ws://127.0.0.1:7171",
      ),
    );
  act(up, async () => (await import("./commands/cluster-up.ts")).clusterUp);
  const status = cluster
    .command("status")
    .description("the nodes of the cluster started from a data directory; exit 10 unless all run")
    .option(dataDir, "the cluster's directory (default ./ottla-data)")
    .addHelpText("after", examples("ottla cluster status", "ottla cluster status --json"));
  act(status, async () => (await import("./commands/cluster.ts")).clusterStatus);
  const down = cluster
    .command("down")
    .description("stop that cluster in order")
    .option(dataDir, "the cluster's directory (default ./ottla-data)")
    .addHelpText("after", examples("ottla cluster down"));
  act(down, async () => (await import("./commands/cluster.ts")).clusterDown);
  const health = cluster
    .command("health")
    .description("ask the brokers whether all is well; exit 10 when not")
    .option("-w, --wait", "wait until healthy, at most --timeout")
    .addHelpText("after", examples("ottla cluster health", "ottla cluster health --wait --timeout 60s && ./deploy.sh"));
  act(health, async () => (await import("./commands/cluster-health.ts")).clusterHealth);
}

function addServer(program: Command, act: Act): void {
  const server = program.command("server").description("run one broker in the foreground");
  const start = server
    .command("start")
    .description("run one broker; its log goes to stderr, Ctrl-C stops it in order")
    .option("-c, --config <file>", "configuration file: JSON with comments, flat keys")
    .option("--node-id <n>", "node.id")
    .option("--data-dir <dir>", "data.dir")
    .option("--listeners <address>", "listeners, such as ws://0.0.0.0:7070")
    .option("-X, --set <key=value>", "set a configuration key; repeatable", gather)
    .option("--check", "check the configuration, print it with where each value comes from, and exit")
    .addHelpText(
      "after",
      "\nA flag wins over -X, -X over the environment (segment.bytes = OTTLA_SEGMENT_BYTES), that over the file.",
    )
    .addHelpText(
      "after",
      examples("ottla server start --node-id 1 --data-dir /var/lib/ottla", "ottla server start -c server.json --check"),
    );
  act(start, async () => (await import("./commands/server.ts")).serverStart);
}

function addTopic(program: Command, act: Act): void {
  const topic = program.command("topic").description("create, list, describe and delete topics");
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
  act(create, async () => (await import("./commands/topic.ts")).topicCreate);
  const list = topic
    .command("ls")
    .alias("list")
    .description("list topics")
    .addHelpText("after", examples("ottla topic ls", "ottla topic ls --json | jq '.topics[].name'"));
  act(list, async () => (await import("./commands/topic.ts")).topicList);
  const describe = topic
    .command("describe")
    .argument("<name...>")
    .description("leader, replicas, in-sync replicas, epoch and offsets of each partition")
    .addHelpText("after", examples("ottla topic describe access-log"));
  act(describe, async () => (await import("./commands/topic.ts")).topicDescribe);
  const remove = topic
    .command("delete")
    .alias("rm")
    .argument("<name...>")
    .description("delete topics and all their records")
    .option("-w, --wait", "return when the names are free again")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", examples("ottla topic delete access-log", "ottla topic delete a b c --yes --wait"));
  act(remove, async () => (await import("./commands/topic.ts")).topicDelete);
}

function addData(program: Command, act: Act): void {
  const produce = program
    .command("produce")
    .argument("<topic>")
    .description("send stdin, one record per line; a summary goes to stderr")
    .option(
      "-a, --acks <0|1|all>",
      "0: no answer; 1: written by the leader; all: synced by every in-sync replica",
      "all",
    )
    .option("-K, --key-delimiter <text>", "what is before it on a line is the key")
    .option("-H, --header <key=value>", "a header for every record; repeatable", gather)
    .option("-z, --compression <codec>", "none, gzip, snappy, lz4 or zstd", "none")
    .option("-p, --partition <n>", "send to this partition (default: by key, or one partition per batch)")
    .option("--rate <records/s>", "at most so many records a second")
    .option("--skip-oversized", "a line that is too long does not make the command fail")
    .option("--batch-bytes <size>", "send a batch when it has grown to this (default 64KiB)")
    .option("--linger <duration>", "how long a batch waits for more records (default 5ms)")
    .option("--delivery-timeout <duration>", "give a record up that is not acknowledged by then (default 120s)")
    .addHelpText("after", "\nA record is the bytes between line feeds; CR is kept, an empty line is an empty value.")
    .addHelpText(
      "after",
      examples("cat access.log | ottla produce access-log", "ottla produce orders -K : -z lz4 --acks 1 < orders.txt"),
    );
  act(produce, async () => (await import("./commands/produce.ts")).produce);
  const consume = program
    .command("consume")
    .argument("<topic...>")
    .description("print records")
    .option(
      "-o, --offset <position>",
      "start, end, an offset, -N for the last N of each partition, @time (ms, ISO or @-1h)",
      "start",
    )
    .option("-e, --exit-at-end", "stop at what was the end when it began")
    .option("-n, --count <n>", "stop after so many records")
    .option("-P, --partitions <list>", "only these, such as 0,2 or 0-3")
    .option("-f, --format <text>", "what to print for a record (default: %v\\n)")
    .addHelpText(
      "after",
      `
Format: %t topic  %p partition  %o offset  %T timestamp in ms  %k key  %v value  %h headers  %e leader epoch
        %K and %V lengths of key and value, -1 for null;  %%  \\n  \\t  \\r  \\0  \\\\  \\xHH`,
    )
    .addHelpText(
      "after",
      examples(
        "ottla consume access-log -e",
        "ottla consume orders -o @-1h -f '%p %o %k %v\\n'",
        "ottla consume orders -o -10 -e --json",
      ),
    );
  act(consume, async () => (await import("./commands/consume.ts")).consume);
}

function addLog(program: Command, act: Act): void {
  const log = program.command("log").description("look into the files of a stopped node, without a broker");
  const dump = log
    .command("dump")
    .argument("<file>")
    .description("print the record batches of a segment file")
    .addHelpText("after", examples("ottla log dump ottla-data/node-1/data/access-log-0/00000000000000000000.log"));
  act(dump, async () => (await import("./commands/log.ts")).logDump);
  const verify = log
    .command("verify")
    .argument("<path>", "a node's data directory, a partition's directory or one segment file")
    .description("check batches, checksums, offsets and epochs; exit 1 with the first bad offset")
    .addHelpText(
      "after",
      examples(
        "ottla log verify ottla-data/node-1/data",
        "ottla log verify ottla-data/node-1/data/access-log-0/00000000000000000000.log",
      ),
    );
  act(verify, async () => (await import("./commands/log.ts")).logVerify);
}

function addSelfTeaching(program: Command, act: Act): void {
  const errors = program
    .command("errors")
    .argument("[code]")
    .description("what an error code means and what to do")
    .addHelpText("after", examples("ottla errors", "ottla errors NOT_ENOUGH_REPLICAS"));
  act(errors, async () => (await import("./commands/errors.ts")).errors);
  const completion = program
    .command("completion")
    .argument("<shell>", "bash, zsh or fish")
    .description("print a completion script for a shell")
    .addHelpText(
      "after",
      examples("source <(ottla completion bash)", "ottla completion fish > ~/.config/fish/completions/ottla.fish"),
    );
  act(completion, async () => {
    const { completion: run } = await import("./commands/completion.ts");
    return (invocation) => run(invocation, program);
  });
}
