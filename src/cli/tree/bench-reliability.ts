// `ottla bench reliability`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addBenchReliability(bench: Command, act: Act): void {
  const reliability = bench
    .command("reliability")
    .description(
      "what each level of acknowledgement loses under each fault: counted, with the time nothing was acknowledged and latency",
    )
    .option("--faults <list>", "some of the faults, by name (default: all)")
    .option("--rounds <n>", "how often each fault strikes, each time with another node as leader", "3")
    .option("--before <duration>", "what is measured before each fault", "5s")
    .option("--fault <duration>", "how long each fault lasts", "6s")
    .option("--after <duration>", "what is measured when the cluster is whole again", "5s")
    .option("--rate <records/s>", "of each level of acknowledgement", "500")
    .option("--value-bytes <size>", "values are of random sizes up to this", "200")
    .option("--seed <n>", "what is left to chance, such as what a power loss leaves on a disk", "1")
    .option("--keep <dir>", "leave histories, data and logs there")
    .option("--out <file.json>", "write the result; repeatable", gather)
    .addHelpText(
      "after",
      prose(`
Starts three nodes of its own for each fault, with a topic of one partition and three replicas for each of acks 0, 1 and all, all led by the same node.
A producer sends to each by a schedule, whatever is answered. In the end every replica is read as leader in turn: an acknowledged record that one of
them lacks is lost.
Faults: leader-killed, all-killed, leader-power-loss, all-power-loss, partition, leader-paused, slow-follower, disk-full. One that cannot be injected
here is NOT RUN, with the reason (most need root and a C compiler).
Exit 20: acks=all lost, doubled or disordered a record, or a checker found an invariant broken. Exit 1: a cell proves nothing, because its fault was
not seen to strike, or hardly anything was acknowledged.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla bench reliability",
        "ottla bench reliability --faults leader-killed,all-killed --rounds 1",
        "ottla bench reliability --rounds 10 --out reliability.json",
      ),
    );
  act(reliability, async () => (await import("../commands/bench-reliability.ts")).benchReliability);
}
