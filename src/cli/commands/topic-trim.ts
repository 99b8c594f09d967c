// ottla topic trim: deletes the oldest records of a topic.
import type { Client, DeletedRecords, StartPosition } from "../../client/types.ts";
import { OttlaError } from "../../model/errors.ts";
import { EXIT } from "../../model/exit-codes.ts";
import type { CompressionName } from "../../ports/codecs.ts";
import { timeoutOf, withClient } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import type { Invocation } from "../invocation.ts";
import { askYesNo } from "../question.ts";
import { parseStartPosition } from "../start-position.ts";
import { parsePartitions, UsageError } from "../values.ts";

export interface TrimFlags {
  readonly before?: string;
  readonly partitions?: string;
  readonly yes?: boolean;
}

const TAKES = "it takes an offset, -N (the last N of each partition stay), @time, or end";

export async function topicTrim({ args, flags, output }: Invocation<TrimFlags>): Promise<number> {
  const [topic = ""] = args;
  if (flags.before === undefined)
    throw new UsageError(
      "--before is missing: it says which record is the first that stays",
      `${TAKES}; end deletes all`,
    );
  const before = parseStartPosition(flags.before, Date.now(), "--before");
  if (before === "start") throw new UsageError("--before start deletes nothing", TAKES);
  const partitions = flags.partitions === undefined ? undefined : parsePartitions(flags.partitions, "--partitions");
  if (flags.yes !== true && (await confirm(topic, wordsOf(before), partitions)) === "interrupted") return EXIT.SIGINT;
  return withClient(
    flags,
    async (client) => {
      const options = { timeoutMs: timeoutOf(flags), ...(partitions === undefined ? {} : { partitions }) };
      const trimmed = await withRanges(client, topic, {
        before,
        trimmed: await client.admin().deleteRecords(topic, before, options),
      });
      throwIfAlike(topic, trimmed);
      if (output.isJson) output.json("topic.trim", { topic, partitions: trimmed.map(asJson) });
      else {
        const rows = trimmed.map((one) => [
          topic,
          String(one.partition),
          String(one.startOffset ?? "-"),
          resultOf(one),
        ]);
        output.table({ headers: ["TOPIC", "PARTITION", "START", "RESULT"], rows, right: [1, 2] });
      }
      const errors = trimmed.flatMap(({ error }) => error ?? []);
      for (const hint of new Set(errors.map((error) => error.hint))) output.note(`hint: ${hint}`);
      return errors.length > 0 ? EXIT.FAILED : EXIT.OK;
    },
    CODECS,
  );
}

/** Which codecs the batches are in is not known before their records are counted. */
const CODECS: readonly CompressionName[] = ["none", "gzip", "snappy", "lz4", "zstd"];
const RANGE_TIMEOUT_MS = 3_000;
const RANGES_TOLD_MAX = 5;

/** Offsets that are refused, with what would be taken. */
async function withRanges(
  client: Client,
  topic: string,
  asked: { readonly before: StartPosition; readonly trimmed: readonly DeletedRecords[] },
): Promise<DeletedRecords[]> {
  const { before, trimmed } = asked;
  const isRefused = ({ error }: DeletedRecords) => error?.code === "OFFSET_OUT_OF_RANGE";
  if (!trimmed.some(isRefused)) return [...trimmed];
  const known = await client
    .admin()
    .offsets(topic, { partial: true, timeoutMs: RANGE_TIMEOUT_MS })
    .catch(() => []);
  const what = typeof before === "object" && "offset" in before ? `offset ${before.offset}` : "what was asked for";
  return trimmed.map((one) => {
    if (!isRefused(one)) return one;
    const range = known.find(({ partition, error }) => partition === one.partition && error === undefined);
    const possible =
      range === undefined
        ? "its end is not known now"
        : `${range.startOffset} (its start) to ${range.endOffset} (its end) can be`;
    const message = `${what} cannot be the first of ${topic}-${one.partition}: ${possible}`;
    const hint = `give --before one of these offsets, -N (the last N of each partition stay), @time, or end; -P takes partitions. ottla topic describe ${topic} shows the offsets`;
    return { ...one, error: new OttlaError("OFFSET_OUT_OF_RANGE", message, { hint, cause: one.error }) };
  });
}

/** What nothing was done for, for one reason, is one line. */
function throwIfAlike(topic: string, trimmed: readonly DeletedRecords[]): void {
  const [first] = trimmed;
  if (first?.error === undefined || trimmed.some(({ error }) => error?.code !== first.error?.code)) return;
  const { code, hint, outcome } = first.error;
  const messages = [...new Set(trimmed.flatMap(({ error }) => error?.message ?? []))];
  const more = messages.length > RANGES_TOLD_MAX ? [`and ${messages.length - RANGES_TOLD_MAX} more`] : [];
  const message = [...messages.slice(0, RANGES_TOLD_MAX), ...more].join("; ");
  const where = message.includes(topic) ? message : `${topic}: ${message}`;
  throw new OttlaError(code, where, { hint, ...(outcome === undefined ? {} : { outcome }), cause: first.error });
}

const resultOf = ({ error }: DeletedRecords): string =>
  error === undefined ? "trimmed" : `${error.code}: ${error.message}`;

const asJson = ({ partition, startOffset, error }: DeletedRecords) => ({
  partition,
  startOffset,
  error: error === undefined ? null : { code: error.code, message: error.message },
});

function wordsOf(before: StartPosition): string {
  if (typeof before === "string") return "all records";
  if ("offset" in before) return `all records below offset ${before.offset}`;
  if ("fromEnd" in before && before.fromEnd === 0) return "all records (the last 0 stay)";
  if ("fromEnd" in before) return `all but the last ${before.fromEnd} records of each partition`;
  return `all records before the first of ${new Date(before.timestamp).toISOString()}`;
}

/** Asks on a terminal; anywhere else it needs --yes. */
async function confirm(
  topic: string,
  what: string,
  partitions: readonly number[] | undefined,
): Promise<"yes" | "interrupted"> {
  const where = partitions === undefined ? topic : `${topic}, partitions ${partitions.join(", ")}`;
  const refused = (message: string) =>
    new CommandFailure({ code: "NOT_CONFIRMED", message, hint: "add --yes", exitCode: EXIT.UNSAFE });
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true)
    throw refused(`this deletes ${what} of ${where}, for good`);
  const streams = { input: process.stdin, output: process.stderr };
  const answer = await askYesNo(`Delete ${what} of ${where}, for good? [y/N] `, streams);
  if (answer === "no") throw refused("not trimmed");
  return answer;
}
