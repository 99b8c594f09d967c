// ottla bench produce|consume|e2e|soak: finds or starts brokers, says how long it takes, measures, prints a table. Ctrl-C prints what was measured so far.
import { randomBytes } from "node:crypto";
import type { BenchResult, BenchRun } from "../../bench/result.ts";
import { runSession, type Session } from "../../bench/session.ts";
import { soakVerdict } from "../../bench/soak.ts";
import { runningTarget, startTarget, type Target } from "../../bench/target.ts";
import { isDamning, lossWords } from "../../bench/load/loss.ts";
import { EXIT } from "../../model/exit-codes.ts";
import { OttlaError } from "../../model/errors.ts";
import { withClient } from "../client.ts";
import { CommandFailure } from "../failure.ts";
import { Interruption } from "../interruption.ts";
import type { Invocation } from "../invocation.ts";
import type { Output } from "../output.ts";
import { exitCodeOfSignal } from "../signals.ts";
import { counted, UsageError } from "../values.ts";
import { type BenchFlags, type BenchPlan, type BenchVerb, benchPlan } from "./bench-flags.ts";
import { commandLine, MEASURED_SO_FAR, writeOuts } from "./bench-out.ts";
import { benchTable, errorsText, runLine } from "./bench-table.ts";

export const benchOf =
  (verb: BenchVerb) =>
  async ({ flags, output }: Invocation<BenchFlags>): Promise<number> => {
    const plan = benchPlan(verb, flags);
    const stop = new Interruption(output, MEASURED_SO_FAR);
    try {
      if (plan.ownNodes === undefined)
        return await withClient(flags, async (client) => measured(plan, await runningTarget(client), stop, output));
      output.note(`starting ${counted(plan.ownNodes, "broker")} in ${plan.directory}`);
      const target = await startTarget(plan.ownNodes, plan.directory);
      try {
        return await measured(plan, target, stop, output);
      } finally {
        await target.close();
      }
    } finally {
      stop.close();
    }
  };

async function measured(plan: BenchPlan, target: Target, stop: Interruption, output: Output): Promise<number> {
  const topic = await topicFor(plan, target);
  output.note(forecast(plan));
  const session = await runSession(target, {
    ...plan,
    ...topic,
    replicationFactor: replicationFactorFor(plan, target),
    isSampled: plan.verb === "soak",
    signal: stop.signal,
    note: (text) => output.note(text),
    command: commandLine(),
    onRun: (run) => output.note(runLine(run)),
  });
  tell(plan, session, output);
  if (session.failure !== undefined) throw session.failure;
  return stop.by === undefined ? verdict(plan, session) : exitCodeOfSignal(stop.by);
}

interface TopicChoice {
  readonly topic: string;
  readonly isTopicThere: boolean;
}

/** `consume --topic` reads one that is there; everyone else makes one. */
async function topicFor({ verb, topic }: BenchPlan, { client }: Target): Promise<TopicChoice> {
  if (topic === undefined) return { topic: `bench-${randomBytes(4).toString("hex")}`, isTopicThere: false };
  const found = await client
    .admin()
    .describeTopic(topic)
    .catch((thrown: unknown) => {
      if (thrown instanceof OttlaError && thrown.code === "UNKNOWN_TOPIC_OR_PARTITION") return undefined;
      throw thrown;
    });
  if (verb === "consume") {
    if (found !== undefined) return { topic, isTopicThere: true };
    throw new OttlaError("UNKNOWN_TOPIC_OR_PARTITION", `no topic "${topic}"`);
  }
  if (found === undefined) return { topic, isTopicThere: false };
  throw new CommandFailure({
    code: "TOPIC_ALREADY_EXISTS",
    message: `topic "${topic}" is there: the benchmark makes its topic and deletes it`,
    hint: "give another name, or none",
    exitCode: EXIT.FAILED,
  });
}

function replicationFactorFor({ replicationFactor }: BenchPlan, { facts }: Target): number {
  if (replicationFactor === undefined) return Math.min(3, facts.brokers);
  if (replicationFactor <= facts.brokers) return replicationFactor;
  throw new UsageError(`--replication-factor ${replicationFactor}: there are ${counted(facts.brokers, "broker")}`);
}

/** For a run beside its measured time: the topic, connections, the last answers. */
const RUN_EXTRA_MS = 1500;
const LIMITS_MS = 6000;

function forecast({ specs, warmUpMs, durationMs, limitBytes }: BenchPlan): string {
  const totalMs = specs.length * (warmUpMs + durationMs + RUN_EXTRA_MS) + (limitBytes > 0 ? LIMITS_MS : 0);
  const each = `${durationMs / 1000} s after ${warmUpMs / 1000} s of warm-up`;
  return `${counted(specs.length, "run")} of ${each}: about ${wordedDuration(totalMs)}`;
}

function wordedDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}

function tell({ verb, outs }: BenchPlan, { result }: Session, output: Output): void {
  if (output.isJson) output.json(`bench.${verb}`, { ...result });
  else output.table(benchTable(result));
  tellRemarks(result.runs, output);
  writeOuts(outs, result, output);
}

/** What holds of all runs is said once. */
function tellRemarks(runs: readonly BenchRun[], output: Output): void {
  const isOfAll = (remark: string) => runs.length > 1 && runs.every(({ remarks }) => remarks.includes(remark));
  for (const remark of runs[0]?.remarks ?? []) if (isOfAll(remark)) output.note(`all runs: ${remark}`);
  for (const { name, errors, remarks } of runs) {
    const failed = errorsText(errors);
    if (failed !== "") output.note(`${name}: failed: ${failed}`);
    for (const remark of remarks) if (!isOfAll(remark)) output.note(`${name}: ${remark}`);
  }
}

export function verdict(
  { verb }: Pick<BenchPlan, "verb">,
  { result, losses }: Pick<Session, "result" | "losses">,
): number {
  for (const [index, loss] of losses.entries()) {
    if (loss === undefined || !isDamning(loss, result.runs[index]?.labels.acks ?? null)) continue;
    throw new CommandFailure({
      code: "RECORDS_LOST",
      message: `${result.runs[index]?.name}: ${lossWords(loss)}`,
      hint: "keep the brokers' data and logs: ottla log verify looks into them",
      exitCode: EXIT.INVARIANT_BROKEN,
    });
  }
  if (verb === "soak") refuseBadSoak(result);
  if (result.runs.some(({ errors }) => Object.keys(errors).length > 0)) return EXIT.FAILED;
  refuseNothing(result);
  return EXIT.OK;
}

/** Brokers that answer nothing for as long as a run takes are no error of any record. */
function refuseNothing({ runs }: BenchResult): void {
  const empty = runs.filter(({ records }) => records === 0).map(({ name }) => name);
  if (empty.length === 0) return;
  const message = `${empty.join(", ")}: no record came through in the measured time`;
  const hint =
    "are the brokers up (ottla cluster health), and has a topic that is read records? Else --duration is too short";
  throw new CommandFailure({ code: "NOTHING_MEASURED", message, hint, exitCode: EXIT.FAILED });
}

function refuseBadSoak(result: BenchResult): void {
  const faults = result.runs.flatMap(soakVerdict);
  if (faults.length === 0) return;
  const hint = "the timeline and the samples of the brokers are in the result: --out FILE.json";
  throw new CommandFailure({ code: "SOAK_FAILED", message: faults.join("; "), hint, exitCode: EXIT.FAILED });
}
