// The verbs of `ottla log`.
import type { Command } from "commander";
import { type Act, examples } from "./act.ts";

export function addLog(program: Command, act: Act): void {
  const log = program.command("log").description("look into the files of a stopped node, without a broker");
  const dump = log
    .command("dump")
    .argument("<file>", "a segment file or one beside it, an image of producers or a node's metadata directory")
    .description(
      "print the record batches of a segment file, the entries of its indexes and its identity, the producers of an image, or a node's quorum state and metadata log",
    )
    .addHelpText(
      "after",
      examples(
        "ottla log dump ottla-data/node-1/data/access-log-0/00000000000000000000.log",
        "ottla log dump ottla-data/node-1/data/access-log-0/00000000000000000000.timeindex",
        "ottla log dump ottla-data/node-1/data/metadata",
      ),
    );
  act(dump, async () => (await import("../commands/log.ts")).logDump);
  const verify = log
    .command("verify")
    .argument("<path>", "a node's data directory, its metadata directory, a partition's directory or one segment file")
    .description("check batches, checksums, offsets, epochs, identity and indexes; exit 1 with the first bad offset")
    .addHelpText(
      "after",
      examples(
        "ottla log verify ottla-data/node-1/data",
        "ottla log verify ottla-data/node-1/data/access-log-0/00000000000000000000.log",
      ),
    );
  act(verify, async () => (await import("../commands/log.ts")).logVerify);
}
