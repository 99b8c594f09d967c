// The verbs of `ottla bench`. Those that load a cluster are here; each other family of verbs has its own file beside this one (bench-<family>.ts).
import type { Command } from "commander";
import type { BenchVerb } from "../commands/bench-flags.ts";
import { type Act, examples, gather, prose } from "./act.ts";
import { addBenchFailover } from "./bench-failover.ts";
import { addBenchReliability } from "./bench-reliability.ts";
import { addBenchReport } from "./bench-report.ts";

export function addBench(program: Command, act: Act): void {
  const bench = program
    .command("bench")
    .description("measure a cluster: throughput, latency, processor time and bytes written");
  addProduce(bench, act);
  addConsume(bench, act);
  addEndToEnd(bench, act);
  addSoak(bench, act);
  addBenchFailover(bench, act);
  addBenchReliability(bench, act);
  addBenchReport(bench, act);
}

const LISTS = prose(`
Flags that take a list (1,10,100) make a run of each combination; how many, and how long they take, is said first.
Without -b, brokers are started for the benchmark with empty directories and taken away at the end.`);

const LOOPS = prose(`
Without --rate a closed loop: each connection has --in-flight batches under way and sends more as they are acknowledged. It finds the most
that goes through; its latencies are those of a cluster at its limit, and of a window that waits for it.
With --rate an open loop: records are due by a schedule that no answer moves, and each counts from when it was due, so that a pause of the brokers
shows in every record it held up (coordinated omission). It is the way to measure latency.`);

const FIGURES = prose(`
Columns: CPU is processor seconds per acknowledged GB, of the load processes and of all brokers; WRITTEN the bytes that brokers gave to their disks per
acknowledged byte; DISK and SOCKET the throughput over raw append and raw TCP of the same machine in the same run. "-": not known, as of brokers
on other machines. MB and GB are powers of ten. Records that failed: exit 1, with their codes.`);

function addProduce(bench: Command, act: Act): void {
  const produce = sending(bench.command("produce"))
    .description("throughput and latency of sending, from a record to its acknowledgement")
    .option("--expected-interval <duration>", "closed loop: add what was omitted, as if a record were due so often");
  common(produce);
  produce.addHelpText("after", LISTS).addHelpText("after", LOOPS).addHelpText("after", FIGURES);
  produce.addHelpText(
    "after",
    examples(
      "ottla bench produce",
      "ottla bench produce --acks 0,1,all --record-bytes 100,1024 --out acks.html",
      "ottla bench produce --rate 5000 --connections 10 --duration 30s",
      "ottla bench produce --cluster 1 --partitions 1,10,100,1000 --out sweep.json",
      "ottla -b broker1 bench produce --connections 1,10,1000 --clients 4",
    ),
  );
  act(produce, runOf("produce"));
}

function addConsume(bench: Command, act: Act): void {
  const consume = bench
    .command("consume")
    .description("throughput of reading a topic over and over, which is written first")
    .option("--topic <name>", "read this topic, which is there and stays, instead")
    .option("--fill <size>", "how much is written to be read", "256MB");
  shape(consume);
  common(consume);
  consume.addHelpText("after", LISTS).addHelpText(
    "after",
    prose(`
Connections share the partitions; more connections than partitions read the same ones. Every record is looked at. The latency is that
from asking for the next batch to having it. What is written just before comes from the brokers' memory and page cache.`),
  );
  consume.addHelpText("after", FIGURES);
  consume.addHelpText(
    "after",
    examples(
      "ottla bench consume --connections 1,4",
      "ottla bench consume --record-bytes 100,1024 --partitions 1,10",
      "ottla -b broker1 bench consume --topic access-log",
    ),
  );
  act(consume, runOf("consume"));
}

function addEndToEnd(bench: Command, act: Act): void {
  const e2e = sending(bench.command("e2e")).description(
    "latency from producer to consumer, and whether every acknowledged record arrived",
  );
  common(e2e);
  e2e.addHelpText("after", LISTS).addHelpText("after", LOOPS).addHelpText("after", FIGURES);
  e2e.addHelpText(
    "after",
    prose(`
Each load process reads its share of the partitions while all of them produce. Acknowledged records that were not read: exit 20.`),
  );
  e2e.addHelpText(
    "after",
    examples("ottla bench e2e --rate 1000", "ottla bench e2e --rate 1000,5000,20000 --acks 1,all --out e2e.html"),
  );
  act(e2e, runOf("e2e"));
}

function addSoak(bench: Command, act: Act): void {
  const soak = bench
    .command("soak")
    .description("a long run at one rate: nothing lost, brokers' memory and descriptors not growing")
    .option("-a, --acks <0|1|all>", "what a send waits for", "all")
    .option("--rate <records/s>", "of all connections together", "1000")
    .option("--record-bytes <size>", "size of a value", "1024")
    .option("--batch-bytes <size>", "a batch is sent when it has grown to this", "64KiB")
    .option("--partitions <n>", "of the topic", "6")
    .option("--connections <n>", "that produce", "10")
    .option("--in-flight <n>", "batches that a connection may have under way", "5")
    .option("--linger <duration>", "how long a batch waits for more records", "5ms")
    .option("--topic <name>", "name of the topic, made for the run and deleted after it");
  common(soak, { duration: "10m", warmUp: "30s" });
  soak.addHelpText(
    "after",
    prose(`
Every record is read and compared with what was acknowledged. Exit 20: an acknowledged record is missing, or with --acks all one is there
twice or out of order. Exit 1: records failed, or a broker's memory or descriptors grew, from the first quarter of the run to the last, by more than
20 % and 64 MiB or 20 descriptors.`),
  );
  soak.addHelpText(
    "after",
    examples(
      "ottla bench soak --duration 1h --rate 2000 --out soak.html",
      "ottla -b broker1 bench soak --duration 24h",
    ),
  );
  act(soak, runOf("soak"));
}

const runOf = (verb: BenchVerb) => async () => (await import("../commands/bench.ts")).benchOf(verb);

function sending(command: Command): Command {
  command
    .option("-a, --acks <list>", "0, 1, all", "all")
    .option("--rate <list>", "records a second of all connections together, or max", "max")
    .option("--in-flight <n>", "batches that a connection may have under way", "5")
    .option("--linger <duration>", "how long a batch waits for more records", "5ms")
    .option("--topic <name>", "name of the topic, made for each run and deleted after it");
  return shape(command);
}

function shape(command: Command): Command {
  return command
    .option("--record-bytes <list>", "size of a value, random bytes", "1024")
    .option("--batch-bytes <list>", "a batch is sent when it has grown to this", "64KiB")
    .option("--partitions <list>", "of the topic", "6")
    .option("--connections <list>", "a client each", "4");
}

function common(command: Command, { duration = "10s", warmUp = "2s" } = {}): Command {
  return command
    .option("--duration <duration>", "what is measured", duration)
    .option("--warm-up <duration>", "before that, not counted", warmUp)
    .option("--clients <n>", "load processes that share the connections (default: half the cores, 2 at least)")
    .option("--cluster <1|3>", "start so many brokers for the benchmark (default without -b: 3)")
    .option("--replication-factor <n>", "of the topic (default: 3, or what brokers there are)")
    .option(
      "--dir <path>",
      "where brokers of its own have their data, and raw disk is measured (default: the system's)",
    )
    .option("--window <duration>", "length of an entry of the timeline (default: a 60th of the duration, 100ms to 1m)")
    .option("--limit-bytes <size>", "raw disk and socket are measured with this; 0: not at all", "1GB")
    .option("--out <file>", "write the result (.json) or a report to look at (.html); repeatable", gather);
}
