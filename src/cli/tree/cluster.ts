// The verbs of `ottla cluster`.
import { type Command, Option } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

const DATA_DIR = "--data-dir <dir>";
const DATA_DIR_ABOUT = "the cluster's directory (default ./ottla-data)";
const STATES = `
States: starting, waiting (for enough voters), running, fenced (leads nothing), not-ready, silent (does not answer), paused, stopping,
stopped, killed, failed. Roles: controller, voter, learner, observer.`;

export function addCluster(program: Command, act: Act): void {
  const cluster = program
    .command("cluster")
    .description("run, see, break and stop a cluster on this machine; ask any cluster for its health");
  addUp(cluster, act);
  addSeeing(cluster, act);
  addNodeVerbs(cluster, act);
  addEnding(cluster, act);
}

function addUp(cluster: Command, act: Act): void {
  const up = cluster
    .command("up")
    .description(
      "start the nodes of a cluster file and stay with them; a live table on a terminal, JSON lines otherwise; Ctrl-C stops them in order, twice kills them",
    )
    .option("-c, --config <file>", "cluster file (default: ./cluster.json, else the example that comes with Ottla)")
    .option("-n, --nodes <n>", "run so many nodes: the file's first ones, or more made after its last one")
    .option(
      "-d, --detach",
      "return when the cluster serves, after --timeout (30s) in any case; `cluster down` stops it",
    )
    .option(DATA_DIR, "where everything is kept (default ./ottla-data)")
    .option("--any-port", "free ports in place of the file's")
    .option("--listeners <address>", "address of the node of a one-node cluster, such as ws://127.0.0.1:7171")
    .option("-X, --set <key=value>", "set a configuration key of every node; repeatable", gather)
    .addOption(new Option("--background").hideHelp())
    .addHelpText(
      "after",
      prose(`
Keys at the table: k kill -9 a node, r start or restart one, p pause one or let it go on, l see its log, q stop in order.
The example file has three nodes and sets num.partitions to 3, so that \`topic create\` without -P makes 3 partitions.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla cluster up",
        "ottla cluster up -n 1",
        "ottla cluster up -c my-cluster.json --detach",
        "ottla cluster up -X segment.bytes=64MiB --any-port",
      ),
    );
  act(up, async () => (await import("../commands/cluster-up.ts")).clusterUp);
}

function addSeeing(cluster: Command, act: Act): void {
  const status = cluster
    .command("status")
    .description("the nodes of the cluster started from a data directory; exit 10 unless all run")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", prose(STATES))
    .addHelpText("after", examples("ottla cluster status", "ottla cluster status --json"));
  act(status, async () => (await import("../commands/cluster.ts")).clusterStatus);
  const logs = cluster
    .command("logs")
    .argument("[node...]", 'nodes, or "launcher"; default: all nodes')
    .description("the end of the nodes' logs")
    .option("-f, --follow", "go on with what is added, until Ctrl-C")
    .option("-n, --lines <n>", "lines of each log to begin with (default 20)")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster logs", "ottla cluster logs -f 2", "ottla cluster logs 1 --json"));
  act(logs, async () => (await import("../commands/cluster-logs.ts")).clusterLogs);
  const health = cluster
    .command("health")
    .description("ask every node whether all is well, and what to do when not; exit 10 when not, 3 when none answers")
    .option("-w, --wait", "wait until healthy, at most --timeout (10s)")
    .option("--watch", "tell each change until Ctrl-C")
    .option(DATA_DIR, `${DATA_DIR_ABOUT}; without --bootstrap`)
    .addHelpText(
      "after",
      examples(
        "ottla cluster health",
        "ottla cluster health --wait --timeout 60s && ./deploy.sh",
        "ottla cluster health --watch --json",
      ),
    );
  act(health, async () => (await import("../commands/cluster-health.ts")).clusterHealth);
}

function addNodeVerbs(cluster: Command, act: Act): void {
  const kill = cluster
    .command("kill")
    .argument("<node...>")
    .description("end nodes at once, as kill -9 does")
    .option("-s, --signal <name>", "KILL, or TERM to stop in order (default KILL)")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster kill 2", "ottla cluster kill 2 -s TERM"));
  act(kill, async () => (await import("../commands/cluster-nodes.ts")).clusterKill);
  const pause = cluster
    .command("pause")
    .argument("<node...>")
    .description("hold nodes as they are (SIGSTOP): alive, but they answer nothing")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster pause 3"));
  act(pause, async () => (await import("../commands/cluster-nodes.ts")).clusterPause);
  const resume = cluster
    .command("resume")
    .argument("<node...>")
    .description("let paused nodes go on (SIGCONT)")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster resume 3"));
  act(resume, async () => (await import("../commands/cluster-nodes.ts")).clusterResume);
  const start = cluster
    .command("start")
    .argument("[node...]", "default: all that do not run")
    .description("start nodes that were killed, stopped or paused, and wait until they serve, at most --timeout (30s)")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster start 2", "ottla cluster start"));
  act(start, async () => (await import("../commands/cluster-nodes.ts")).clusterStart);
  const restart = cluster
    .command("restart")
    .argument("<node...>")
    .description("stop nodes in order and start them again, one after the other")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster restart 1 2 3"));
  act(restart, async () => (await import("../commands/cluster-nodes.ts")).clusterRestart);
}

function addEnding(cluster: Command, act: Act): void {
  const down = cluster
    .command("down")
    .description("stop the cluster in order, paused nodes too; at most --timeout (30s)")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster down"));
  act(down, async () => (await import("../commands/cluster.ts")).clusterDown);
  const wipe = cluster
    .command("wipe")
    .argument("[node...]", "default: everything of the cluster")
    .description("delete what nodes that do not run keep on disk")
    .option("-y, --yes", "yes, delete it")
    .option(DATA_DIR, DATA_DIR_ABOUT)
    .addHelpText("after", examples("ottla cluster wipe --yes", "ottla cluster wipe 2 --yes"));
  act(wipe, async () => (await import("../commands/cluster-wipe.ts")).clusterWipe);
}
