// `ottla quorum unsafe-recover`: among the verbs of the quorum, but offline and dangerous, so it has a page of its own.
import type { Command } from "commander";
import { type Act, examples, prose } from "./act.ts";

export function addUnsafeRecover(quorum: Command, act: Act): void {
  const recover = quorum
    .command("unsafe-recover")
    .description("when half of the voters or more have lost their disks for good: make a stopped node the only voter")
    .option("--data-dir <dir>", "the node's data directory (of a local cluster: ottla-data/node-<n>/data)")
    .option("--node <n>", "whose disk that is: a check against the wrong one")
    .option("-y, --yes", "yes, give up what only the lost voters knew")
    .addHelpText(
      "after",
      prose(`
Without --yes it says what this node's metadata log holds and what would be lost, and ends with 6. It opens the log as a start does (a
torn end is cut), and gives nothing up. Run it so on every node that still has its disk, and choose the one with the highest last term, of those the one with the highest end. While any majority of
the voters can still be started, start it instead. A voter of before must never be started on its old disk again: wipe it first.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla quorum unsafe-recover --data-dir ottla-data/node-1/data --node 1",
        "ottla quorum unsafe-recover --data-dir ottla-data/node-1/data --node 1 --yes",
      ),
    );
  act(recover, async () => (await import("../commands/unsafe-recover.ts")).unsafeRecover);
}
