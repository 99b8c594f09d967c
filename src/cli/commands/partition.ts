// ottla partition elect: gives leadership back to the first replicas, or, where nobody may lead, to one that is not complete.
import type { Election, ElectOptions } from "../../client/types.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { timeoutOf, withClient } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { askYesNo } from "../question.ts";
import { counted, parseInteger, parsePartitions, UsageError } from "../values.ts";

export interface ElectFlags {
  readonly unclean?: boolean;
  readonly node?: string;
  readonly yes?: boolean;
}

export async function partitionElect({ args, flags, output }: Invocation<ElectFlags>): Promise<number> {
  const isUnclean = flags.unclean === true;
  const wish = wishOf(args, flags);
  if (isUnclean && flags.yes !== true && (await confirmUnclean(wish)) === "interrupted") return EXIT.SIGINT;
  return withClient(flags, async (client) => {
    const kind = isUnclean ? "unclean" : "preferred";
    const { elections, omitted } = await client.admin().electLeaders(kind, { ...wish, timeoutMs: timeoutOf(flags) });
    if (output.isJson) output.json("partition.elect", { kind, elections: elections.map(asJson), omitted });
    else {
      const rows = elections.map((election) => [
        election.topic,
        String(election.partition),
        election.leader < 0 ? "none" : String(election.leader),
        resultOf(election),
      ]);
      if (rows.length > 0) output.table({ headers: ["TOPIC", "PARTITION", "LEADER", "RESULT"], rows, right: [1, 2] });
      else output.note("nothing to elect: all are led as asked already");
      if (omitted > 0) output.note(`and ${counted(omitted, "partition")} more: ottla topic describe shows them`);
    }
    const hasFailed = elections.some(({ error }) => error !== undefined && error.code !== "ELECTION_NOT_NEEDED");
    return hasFailed ? EXIT.FAILED : EXIT.OK;
  });
}

function wishOf([topic, ...partitions]: readonly string[], flags: ElectFlags): ElectOptions {
  if (flags.unclean !== true && flags.node !== undefined)
    throw new UsageError(
      "--node goes with --unclean",
      "a preferred election elects the first replica of each partition",
    );
  if (flags.unclean === true && topic === undefined)
    throw new UsageError("--unclean needs a topic", "ottla cluster health names the partitions that nobody can lead");
  return {
    ...(topic === undefined ? {} : { topic }),
    ...(partitions.length === 0 ? {} : { partitions: parsePartitions(partitions.join(",")) }),
    ...(flags.node === undefined ? {} : { nodeId: parseInteger(flags.node, "--node", { min: 0, max: 2 ** 31 - 1 }) }),
  };
}

function resultOf({ error }: Election): string {
  if (error === undefined) return "elected";
  return error.code === "ELECTION_NOT_NEEDED" ? "not needed" : `${error.code}: ${error.message}`;
}

const asJson = ({ topic, partition, leader, error }: Election) => ({
  topic,
  partition,
  leader: leader < 0 ? null : leader,
  error: error === undefined ? null : { code: error.code, message: error.message },
});

/** Asks on a terminal; anywhere else it needs --yes. */
async function confirmUnclean({ topic = "", partitions, nodeId }: ElectOptions): Promise<"yes" | "interrupted"> {
  const which =
    partitions?.map((partition) => `${topic}-${partition}`).join(", ") ?? `all leaderless partitions of ${topic}`;
  const who = nodeId === undefined ? "a replica" : `node ${nodeId}`;
  const what = `${who} that may lack acknowledged records leads ${which}: what it lacks is lost for good`;
  const refused = (message: string) =>
    new CommandFailure({ code: "NOT_CONFIRMED", message, hint: "add --yes", exitCode: EXIT.UNSAFE });
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) throw refused(what);
  const streams = { input: process.stdin, output: process.stderr };
  const answer = await askYesNo(`An unclean election: ${what}. Do it? [y/N] `, streams);
  if (answer === "no") throw refused("not elected");
  return answer;
}
