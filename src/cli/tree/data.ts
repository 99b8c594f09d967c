// `ottla produce` and `ottla consume`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addData(program: Command, act: Act): void {
  addProduce(program, act);
  addConsume(program, act);
}

function addProduce(program: Command, act: Act): void {
  const produce = program
    .command("produce")
    .argument("<topic>")
    .description("send stdin, one record per line; a summary goes to stderr")
    .option(
      "-a, --acks <0|1|all>",
      "0: no answer; 1: written by the leader; all: on the disk of every replica in sync",
      "all",
    )
    .option("-K, --key-delimiter <text>", "what is before it on a line is the key")
    .option("-Z, --empty-as-null", "an empty value is null: in a compacted topic it deletes its key (with -K)")
    .option("-H, --header <key=value>", "a header for every record; repeatable", gather)
    .option("-z, --compression <codec>", "none, gzip, snappy, lz4 or zstd", "none")
    .option("-p, --partition <n>", "send to this partition (default: by key, or one partition per batch)")
    .option("--rate <records/s>", "at most so many records a second")
    .option("--skip-oversized", "a line that is too long does not make the command fail")
    .option("--batch-bytes <size>", "send a batch when it has grown to this (default 64KiB)")
    .option("--linger <duration>", "how long a batch waits for more records (a bare number: milliseconds; default 5ms)")
    .option(
      "--delivery-timeout <duration>",
      "give a record up that is not acknowledged (acks 0: not sent) by then (a bare number: seconds; default 120s)",
    )
    .option("--producer-name <name>", "the one producer of this name: another one that has it is ended (acks all)")
    .option(
      "--no-idempotence",
      "what may be there already is not sent again, but counted as of unknown outcome (acks all)",
    )
    .addHelpText(
      "after",
      prose(`
A record is the bytes between line feeds; CR is kept, an empty line is an empty value (with -Z: null). A topic whose cleanup.policy has compact
takes no record without a key: such lines are named and not sent.
What an acknowledged record survives:
  --acks all  (also -1) everything that leaves one replica in sync, of at least min.insync.replicas: kill -9, power loss, lost disks of the others
  --acks 1    kill -9 of the leader's process; not a power loss of its machine, nor another leader before it was copied
  --acks 0    nothing is promised: it counts as sent when it is handed to the network, also when the broker then refuses it.
With --acks all a record is in the topic once and in its place, however often it had to be sent: through lost connections, other leaders and restarted
nodes, until --delivery-timeout. A command that is started again is another producer: it knows nothing of what the one before has sent.
While fewer than min.insync.replicas are in sync nothing is taken, whatever the acks; with allow.acks.below.min.isr=1 on the topic, acks 0 and 1 are.`),
    )
    .addHelpText(
      "after",
      examples(
        "cat access.log | ottla produce access-log",
        "ottla produce orders -K : -z lz4 --acks 1 < orders.txt",
        "echo 'user-17:' | ottla produce profiles -K : -Z",
      ),
    );
  act(produce, async () => (await import("../commands/produce.ts")).produce);
}

function addConsume(program: Command, act: Act): void {
  const consume = program
    .command("consume")
    .argument("<topic...>")
    .description("print records")
    .option(
      "-o, --offset <position>",
      "start, end, an offset, -N for the last N of each partition, @time (ms, ISO date in UTC or @-1h)",
      "start",
    )
    .option("-e, --exit-at-end", "stop at what was the end when it began")
    .option("-n, --count <n>", "stop after so many records")
    .option("-P, --partitions <list>", "only these, such as 0,2 or 0-3")
    .option("-f, --format <text>", "what to print for a record (default: %v\\n)")
    .addHelpText(
      "after",
      prose(`
Format: %t topic  %p partition  %o offset  %T timestamp in ms  %k key  %v value
        %h headers  %e leader epoch
        %K and %V lengths of key and value, -1 for null
        %%  \\n  \\t  \\r  \\0  \\\\  \\xHH
-o -N counts the records of each partition; beyond 10000 it counts offsets, of which some have no record (compaction, what the broker writes
for itself): then it may print fewer.`),
    )
    .addHelpText(
      "after",
      examples(
        "ottla consume access-log -e",
        "ottla consume orders -o @-1h -f '%p %o %k %v\\n'",
        "ottla consume orders -o -10 -e --json",
      ),
    );
  act(consume, async () => (await import("../commands/consume.ts")).consume);
}
