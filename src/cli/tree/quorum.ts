// The verbs of `ottla quorum`.
import type { Command } from "commander";
import { type Act, examples, prose } from "./act.ts";
import { addUnsafeRecover } from "./recovery.ts";

const NODE = "<node>";
const DIRECTORY = "--directory-id <id>";

export function addQuorum(program: Command, act: Act): void {
  const quorum = program
    .command("quorum")
    .description("see and change who votes on the cluster's metadata, and who leads them");
  const status = quorum
    .command("status")
    .description("leader, term, voters and how far they are; exit 10 without a leader")
    .addHelpText(
      "after",
      prose(`
States: ok, silent (the leader has not heard from it for 3 s), unknown (only the leader knows), refused (back on an old image of its
disk: it is not listened to until it is replaced), fenced.`),
    )
    .addHelpText("after", examples("ottla quorum status", "ottla quorum status --json | jq .leaderId"));
  act(status, async () => (await import("../commands/quorum.ts")).quorumStatus);
  addVoterVerbs(quorum, act);
  const transfer = quorum
    .command("transfer")
    .argument(NODE, "a voter")
    .description("make a voter the leader; nothing is lost, changes wait for a moment")
    .addHelpText("after", examples("ottla quorum transfer 2"));
  act(transfer, async () => (await import("../commands/quorum.ts")).quorumTransfer);
  const upgrade = quorum
    .command("upgrade")
    .description("raise metadata.version when all brokers run the new release; it is never lowered")
    .option("--to <n>", "the version (default: the highest that the leader's release supports)")
    .addHelpText(
      "after",
      prose(`
Until then every node may go back to the release before; afterwards the older release does not start any more. Refused by the name of the node
while a registered broker, or a voter, does not know the version. A new cluster begins at the newest; ottla quorum status shows it.`),
    )
    .addHelpText("after", examples("ottla quorum upgrade", "ottla quorum upgrade --to 2"));
  act(upgrade, async () => (await import("../commands/quorum.ts")).quorumUpgrade);
  addUnsafeRecover(quorum, act);
}

function addVoterVerbs(quorum: Command, act: Act): void {
  const add = quorum
    .command("add")
    .argument(NODE, "a registered broker that does not vote yet")
    .description("let a broker vote; returns when it has caught up and does")
    .option(DIRECTORY, "the disk it must be on (default: the one it is registered with)")
    .addHelpText("after", examples("ottla quorum add 4", "ottla quorum add 4 --timeout 5m"));
  act(add, async () => (await import("../commands/quorum.ts")).quorumAdd);
  const remove = quorum
    .command("remove")
    .argument(NODE, "a voter")
    .description("take a broker's vote away; it goes on as a broker")
    .option(DIRECTORY, "the disk it must be on (default: the one that votes)")
    .addHelpText("after", examples("ottla quorum remove 3"));
  act(remove, async () => (await import("../commands/quorum.ts")).quorumRemove);
  const replace = quorum
    .command("replace")
    .argument(NODE, "a voter whose disk was lost, changed or put back to an old state")
    .description("let a voter vote on the disk that it has now, in place of the one before")
    .option(DIRECTORY, "its new disk (default: the one it is registered with)")
    .addHelpText("after", examples("ottla quorum replace 2"));
  act(replace, async () => (await import("../commands/quorum.ts")).quorumReplace);
}
