// The verbs of `ottla broker`.
import type { Command } from "commander";
import { type Act, examples, gather, prose } from "./act.ts";

export function addBroker(program: Command, act: Act): void {
  const broker = program
    .command("broker")
    .description("list and describe brokers, change their settings while they run, take dead ones off the list");
  const list = broker
    .command("ls")
    .alias("list")
    .description("brokers with their role, state, partitions that they lead, and how many of their copies are in sync")
    .addHelpText("after", examples("ottla broker ls", "ottla broker ls --json | jq '.brokers[] | select(.isFenced)'"));
  act(list, async () => (await import("../commands/broker.ts")).brokerList);
  const describe = broker
    .command("describe")
    .argument("<broker>", 'its node id, or "default": what is set for all brokers')
    .description("every setting of a broker with its value, where it comes from, and whether it can be altered")
    .addHelpText("after", examples("ottla broker describe 1", "ottla broker describe default"));
  act(describe, async () => (await import("../commands/broker.ts")).brokerDescribe);
  const alter = broker
    .command("alter")
    .argument("<broker>", 'its node id, or "default": all brokers that have nothing of their own')
    .description("change settings while brokers run; all of them or none")
    .option("-c, --config <key=value>", "set it; repeatable", gather)
    .option("--delete-config <key>", "take it away: what stands below it applies again; repeatable", gather)
    .option("--dry-run", "check it, change nothing")
    .addHelpText(
      "after",
      examples("ottla broker alter default -c num.partitions=6", "ottla broker alter 2 --delete-config segment.bytes"),
    );
  act(alter, async () => (await import("../commands/broker.ts")).brokerAlter);
  addUnregister(broker, act);
}

function addUnregister(broker: Command, act: Act): void {
  const unregister = broker
    .command("unregister")
    .argument("<broker>", "its node id: a dead broker that does not vote")
    .description("take a dead broker off the list, so that health and upgrades no longer wait for it")
    .option("-y, --yes", "yes, it never comes back with what it holds")
    .option("--force", "also when it holds partitions: what only it has is given up")
    .addHelpText(
      "after",
      prose(`
Refused while the broker is alive, while it is in the quorum (ottla quorum remove <node> comes first), and while it has a copy of any partition.
With --force its partitions go on with their other replicas; those that have none stay in their topics, without a leader. A node that is started
again under this id is a new broker without them.`),
    )
    .addHelpText("after", examples("ottla broker unregister 4 --yes", "ottla broker unregister 4 --yes --force"));
  act(unregister, async () => (await import("../commands/broker.ts")).brokerUnregister);
}
