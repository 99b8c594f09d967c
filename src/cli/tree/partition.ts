// The verbs of `ottla partition`.
import type { Command } from "commander";
import { type Act, examples, prose } from "./act.ts";

export function addPartition(program: Command, act: Act): void {
  const partition = program.command("partition").description("elect leaders of partitions");
  const elect = partition
    .command("elect")
    .argument("[topic]", "default: every topic")
    .argument("[partition...]", "such as 0 2 or 0-3; default: all of the topic")
    .description(
      "let the first replica of each partition lead again, or the one on --node; with --unclean, one that is not complete",
    )
    .option("--unclean", "of partitions that nobody may lead: a replica that may lack acknowledged records leads")
    .option(
      "--node <n>",
      "who is to lead (default: the first replica; with --unclean, of those that are up, the one that has most)",
    )
    .option("--force", "with --unclean: also where a replica that has everything is only down")
    .option("-y, --yes", "yes, what that replica lacks is lost for good")
    .addHelpText(
      "after",
      prose(`
Leadership goes back to the first replicas by itself, some seconds after they
are in sync; this does it now. With --node the replica there leads, if it is in
sync: nothing is lost, and some seconds later the first replica leads again,
unless auto.leader.rebalance.enable is false. An unclean election is only for a partition
that ottla topic describe shows as lost, when no node with an intact copy can
come back: what was acknowledged and is not on the new leader is gone, and its
offsets are given again to other records. Without --yes it says what each
replica has. Nothing does it by itself, and the partition remembers it.
A replica with a damaged log cannot be elected.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla partition elect access-log",
        "ottla partition elect",
        "ottla partition elect access-log 3 --node 2",
        "ottla partition elect access-log 3 --unclean --node 2 --yes",
      ),
    );
  act(elect, async () => (await import("../commands/partition.ts")).partitionElect);
}
