// The verbs of `ottla chaos`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addChaos(program: Command, act: Act): void {
  const chaos = program
    .command("chaos")
    .description("break a cluster of real processes under load, and judge what its clients saw");
  const run = chaos
    .command("run")
    .argument("[plan]", "a plan: JSON with comments (default: the short set, three minutes)")
    .description("start clusters of its own, strike them with faults while clients send and read, check every answer")
    .option("--hour", "the long set: an hour of cells, each cluster with other random choices")
    .option("--self-test", "only the nodes with planted bugs, which otherwise come first")
    .option("--no-self-test", "not those")
    .option("--cell <workload,fault,target>", "only this; repeatable", gather)
    .option("--seed <n>", "of the random choices (default: the clock)")
    .option("--out <dir>", "keep histories, logs and verdict here (default: a temporary directory, kept unless green)")
    .addHelpText(
      "after",
      prose(`
It says first what can be injected on this machine; what cannot is NOT RUN, and never counts as green. Then come nodes
with planted bugs: where they do not end with a broken invariant, the rest proves nothing. A cell is green
when nothing that was promised broke, the fault is seen to have struck, records were acknowledged all along where the
fault is one to be tolerated, all was well in time after it, and no process ended by itself. In the end every replica is
read as leader in turn, every data directory is verified offline, and replicas are compared byte for byte. Exit 20: an
invariant is broken. Exit 1: not green for another reason.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla chaos run",
        "ottla chaos run --cell acks-all,kill,leader --out kills",
        "ottla chaos run plan.json --seed 7",
        "ottla chaos run --self-test",
      ),
    );
  act(run, async () => (await import("../commands/chaos.ts")).chaosRun);
  const list = chaos
    .command("list")
    .description("workloads, faults and targets that plans may name, and what can be injected on this machine")
    .addHelpText("after", examples("ottla chaos list"));
  act(list, async () => (await import("../commands/chaos.ts")).chaosList);
  const out = chaos
    .command("export")
    .argument("<run>", "the directory that chaos run --out was given")
    .description("the history of one cluster of a run as EDN, for Jepsen's Kafka checker")
    .option("--edn <file>", "where it is written")
    .option("--cluster <n>", "of a run with several clusters")
    .addHelpText("after", examples("ottla chaos export kills --cluster 1 --edn kills.edn"));
  act(out, async () => (await import("../commands/chaos-export.ts")).chaosExport);
}
