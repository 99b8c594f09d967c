// ottla partition elect: gives leadership back to the first replicas, or to one in sync, or, where nobody may lead, to one that is not complete.
import type { Admin, Election, ElectOptions, PartitionState } from "../../client/types.ts";
import type { ErrorName } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { timeoutOf, withClient } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { askYesNo } from "../question.ts";
import { counted, parseInteger, parsePartitions, UsageError } from "../values.ts";

export interface ElectFlags {
  readonly unclean?: boolean;
  readonly node?: string;
  readonly force?: boolean;
  readonly yes?: boolean;
}

const NOT_THERE: readonly ErrorName[] = ["UNKNOWN_TOPIC_OR_PARTITION", "BROKER_ID_NOT_REGISTERED"];

export async function partitionElect({ args, flags, output }: Invocation<ElectFlags>): Promise<number> {
  const isUnclean = flags.unclean === true;
  const wish = wishOf(args, flags);
  return withClient(flags, async (client) => {
    const asked = { ...wish, ...(flags.timeout === undefined ? {} : { timeoutMs: timeoutOf(flags) }) };
    if (isUnclean && flags.yes !== true && (await confirmUnclean(client.admin(), asked)) === "interrupted")
      return EXIT.SIGINT;
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
      if (omitted > 0)
        output.note(`and ${counted(omitted, "partition")} more: ottla topic describe <topic> shows them`);
    }
    const errors = elections.flatMap(({ error }) => error ?? []).filter(({ code }) => code !== "ELECTION_NOT_NEEDED");
    if (errors.length > 0 && errors.every(({ code }) => NOT_THERE.includes(code))) return EXIT.NOT_FOUND;
    for (const hint of new Set(errors.map((error) => error.hint))) output.note(`hint: ${hint}`);
    return errors.length > 0 ? EXIT.FAILED : EXIT.OK;
  });
}

function wishOf([topic, ...partitions]: readonly string[], flags: ElectFlags): ElectOptions {
  if (flags.node !== undefined && topic === undefined)
    throw new UsageError("--node needs a topic", "not every topic has a replica on one node");
  if (flags.unclean !== true && flags.force === true)
    throw new UsageError("--force goes with --unclean", "a preferred election gives up nothing");
  if (flags.unclean === true && topic === undefined)
    throw new UsageError("--unclean needs a topic", "ottla cluster health names the partitions that nobody can lead");
  return {
    ...(topic === undefined ? {} : { topic }),
    ...(partitions.length === 0 ? {} : { partitions: parsePartitions(partitions.join(","), "[partition...]") }),
    ...(flags.force === true ? { force: true } : {}),
    ...(flags.node === undefined ? {} : { nodeId: parseInteger(flags.node, "--node", { min: 0, max: 2 ** 31 - 1 }) }),
  };
}

function resultOf({ error, endOffset, note }: Election): string {
  if (error === undefined) {
    const end = endOffset === null ? "" : `; its log ends at ${endOffset}`;
    return `elected${end}${note === null ? "" : ` (${note})`}`;
  }
  return error.code === "ELECTION_NOT_NEEDED" ? "not needed" : `${error.code}: ${error.message}`;
}

const asJson = ({ topic, partition, leader, error, endOffset, note }: Election) => ({
  topic,
  partition,
  leader: leader < 0 ? null : leader,
  endOffset,
  note,
  error: error === undefined ? null : { code: error.code, message: error.message },
});

/** Partitions that the question names; there may be thousands. */
const NAMED_MAX = 10;

/** Asks on a terminal, saying who has what as far as they say it in time; anywhere else it needs --yes. */
export async function confirmUnclean(
  admin: Pick<Admin, "describePartitions">,
  wish: ElectOptions,
): Promise<"yes" | "interrupted"> {
  const { topic = "", partitions, nodeId, timeoutMs } = wish;
  const all = await admin.describePartitions(topic, {
    ...(partitions === undefined ? {} : { partitions }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  const states = all.filter(({ leader }) => partitions !== undefined || leader < 0);
  const more = states.length > NAMED_MAX ? [`and ${counted(states.length - NAMED_MAX, "partition")} more`] : [];
  const texts = [...states.slice(0, NAMED_MAX).map((state) => situationOf(topic, state)), ...more];
  const who = nodeId === undefined ? "the replica that is up and has most" : `node ${nodeId}`;
  const refused = (message: string) =>
    new CommandFailure({ code: "NOT_CONFIRMED", message, hint: "add --yes", exitCode: EXIT.UNSAFE });
  const loss = `${who} would lead, and what it lacks is lost for good`;
  const what = states.length === 0 ? `nobody needs to be elected: every partition of ${topic} is led` : loss;
  const where = texts.join("; ");
  const sentence = where === "" ? what : `${where}; ${what}`;
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) throw refused(sentence);
  const streams = { input: process.stdin, output: process.stderr };
  const answer = await askYesNo(`An unclean election: ${sentence}. Do it? [y/N] `, streams);
  if (answer === "no") throw refused("not elected");
  return answer;
}

function situationOf(topic: string, { index, leader, isr, elr, progress }: PartitionState): string {
  const name = `${topic}-${index}`;
  if (leader >= 0) return `${name} is led by node ${leader} and needs no election`;
  const able = [...new Set([...isr, ...elr])];
  const whole = `${able.length === 1 ? "node" : "one of the nodes"} ${able.join(", ")}`;
  const complete =
    able.length === 0 ? "" : ` has no leader until ${whole}, which has everything, is up: start it instead;`;
  const replicas = progress.map(({ nodeId, endOffset, lastEpoch }) => {
    if (endOffset === null) return `node ${nodeId} does not say`;
    return `node ${nodeId} ends at ${endOffset}${lastEpoch === null ? "" : ` (epoch ${lastEpoch})`}`;
  });
  return `${name}${complete === "" ? ":" : complete} ${replicas.join(", ")}`;
}
