// The verbs of `ottla cluster`.
import { type Command, Option } from "commander";
import { type Act, examples, gather } from "./act.ts";

export function addCluster(program: Command, act: Act): void {
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
  act(up, async () => (await import("../commands/cluster-up.ts")).clusterUp);
  const status = cluster
    .command("status")
    .description("the nodes of the cluster started from a data directory; exit 10 unless all run")
    .option(dataDir, "the cluster's directory (default ./ottla-data)")
    .addHelpText("after", examples("ottla cluster status", "ottla cluster status --json"));
  act(status, async () => (await import("../commands/cluster.ts")).clusterStatus);
  const down = cluster
    .command("down")
    .description("stop that cluster in order")
    .option(dataDir, "the cluster's directory (default ./ottla-data)")
    .addHelpText("after", examples("ottla cluster down"));
  act(down, async () => (await import("../commands/cluster.ts")).clusterDown);
  const health = cluster
    .command("health")
    .description("ask the brokers whether all is well; exit 10 when not")
    .option("-w, --wait", "wait until healthy, at most --timeout")
    .addHelpText("after", examples("ottla cluster health", "ottla cluster health --wait --timeout 60s && ./deploy.sh"));
  act(health, async () => (await import("../commands/cluster-health.ts")).clusterHealth);
}
