// `ottla bench failover`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addBenchFailover(bench: Command, act: Act): void {
  const failover = bench
    .command("failover")
    .description("how long a partition takes nothing when its leader goes: three brokers of its own, under load")
    .option("--kills <n>", "so often for each kind that says no number", "30")
    .option("--kinds <list>", "which, each with :n if you like", "all")
    .option("--rate <records/s>", "the load beside the probes", "20000")
    .option("--record-bytes <size>", "of its records", "100")
    .option("--dir <path>", "where the brokers keep their data (default: the system's for temporary files)")
    .option("--out <file>", "write the result (.json) or a report to look at (.html); repeatable", gather)
    .addHelpText(
      "after",
      prose(`
A client process of its own for each of six partitions sends a small record with acks=all every 20 ms; another one sends the load. Kinds, and what happens to a leader:
  kill, controller        kill -9; controller: of one that is the controller, too
  pause, pause-controller SIGSTOP
  cut, cut-controller     its network takes nothing, in silence (Linux; root, or inside unshare -rn)
  stop                    stopped in order and started again.
Exit code 1 when a kind misses its limit or could not be measured, the load was less than 90 % of what it was to be, or a client was told of an error.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla bench failover --kinds kill:10,stop:3 --out failover.html",
        "ottla bench failover --kills 5 --out failover.json",
      ),
    );
  act(failover, async () => (await import("../commands/bench-failover.ts")).benchFailover);
}
