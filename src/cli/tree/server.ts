// The verbs of `ottla server`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addServer(program: Command, act: Act): void {
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
      prose(
        "\nA flag wins over -X, -X over the environment (segment.bytes = OTTLA_SEGMENT_BYTES), that over the file.",
      ),
    )
    .addHelpText(
      "after",
      examples("ottla server start --node-id 1 --data-dir /var/lib/ottla", "ottla server start -c server.json --check"),
    );
  act(start, async () => (await import("../commands/server.ts")).serverStart);
}
