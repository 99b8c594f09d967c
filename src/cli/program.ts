// The command tree: names, flags, help and examples. Each action loads its code only when it runs, so that --help stays fast.
import { Command, CommanderError, Option } from "commander";
import { EXIT } from "../model/exit-codes.ts";
import { createOutput, type GlobalFlags } from "./output.ts";
import { type Act, prose } from "./tree/act.ts";
import { addBench } from "./tree/bench.ts";
import { addBroker } from "./tree/broker.ts";
import { addChaos } from "./tree/chaos.ts";
import { addCluster } from "./tree/cluster.ts";
import { addData } from "./tree/data.ts";
import { addLog } from "./tree/log.ts";
import { addPartition } from "./tree/partition.ts";
import { addQuorum } from "./tree/quorum.ts";
import { addSelfTeaching } from "./tree/self.ts";
import { addServer } from "./tree/server.ts";
import { addTopic } from "./tree/topic.ts";
import { UsageError } from "./values.ts";
import { VERSION } from "./version.ts";

const EXIT_CODES = prose(`
Exit codes:
  0 ok, 1 failed (log verify and log dump: damage found), 2 usage or configuration, also refused by the broker as such, 3 no broker reached or timed out, 4 not found, 6 refused without --yes, 10 unhealthy, 20 a node found damage, 30 disk failed, 31 disk failed in recovery, 32 data directory refused, 70 bug, 129 terminal closed, 130 Ctrl-C, 143 SIGTERM.`);

const TRY = `
Examples:
  $ ottla cluster up                                   # three nodes in ./ottla-data, Ctrl-C stops them
  $ ottla topic create access-log --partitions 6
  $ cat access.log | ottla produce access-log
  $ ottla consume access-log -o start -e | head
${EXIT_CODES}`;

/** What a command's action gets to fill its exit code in. */
interface Outcome {
  exitCode: number;
}

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
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 30 })
    .helpCommand("help [command]", "show help for a command")
    .option(
      "-b, --bootstrap <host[:port],...>",
      "brokers to ask first, port 7070 unless given (env OTTLA_BOOTSTRAP; default: the cluster that runs from ./ottla-data, else 127.0.0.1)",
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
      // A script's variable without a value, as a rule.
      if (command.args.includes("")) throw new UsageError("an argument is empty");
      const flags = { ...command.optsWithGlobals<GlobalFlags>(), verbose: verbosity.count };
      const run = await load();
      outcome.exitCode = await run({ args: command.args, flags: flags as never, output: createOutput(flags) });
    });
  };
  addCluster(program, act);
  addServer(program, act);
  addTopic(program, act);
  addPartition(program, act);
  addBroker(program, act);
  addQuorum(program, act);
  addData(program, act);
  addLog(program, act);
  addBench(program, act);
  addChaos(program, act);
  addSelfTeaching(program, act);
  return program;
}
