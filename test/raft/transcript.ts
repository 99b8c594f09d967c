// The language of the transcripts in testdata/: what each command does to a cluster, and what it prints.
import { AssertionFailure } from "../../src/base/assert.ts";
import type { Message, Ready, WriteBatch } from "../../src/raft/types.ts";
import { Cluster, describeEntry, describeMessage, id } from "./cluster.ts";

type Command = (cluster: Cluster, words: readonly string[]) => string | string[];

const arrow = (message: Message): string => `${message.from} -> ${message.to} ${describeMessage(message)}`;

function describeWrite({
  id: batch,
  hardState,
  resetLogTo,
  cutSuffixTo,
  entries,
  cutPrefixTo,
  messagesAfterSync,
}: WriteBatch): string[] {
  const lines = [`batch ${batch}`];
  if (hardState !== null) lines.push(`  hard state: term ${hardState.term}, vote ${hardState.votedFor ?? "none"}`);
  if (resetLogTo !== null) lines.push(`  reset the log to ${resetLogTo.start}`);
  if (cutSuffixTo !== null) lines.push(`  cut from ${cutSuffixTo}`);
  for (const entry of entries) lines.push(`  append ${describeEntry(entry)}`);
  if (cutPrefixTo !== null) lines.push(`  free below ${cutPrefixTo}`);
  for (const message of messagesAfterSync) lines.push(`  after sync: ${arrow(message)}`);
  return lines;
}

function describeReady(ready: Ready): string[] {
  const lines = ready.write === null ? [] : describeWrite(ready.write);
  for (const message of ready.messages) lines.push(`now: ${arrow(message)}`);
  for (const { position, bytes, isLast } of ready.snapshotWrites)
    lines.push(`snapshot bytes ${position}..${position + bytes.length}${isLast ? ", the last" : ""}`);
  if (ready.loadSnapshot !== null) lines.push(`load the snapshot that ends at ${ready.loadSnapshot.end}`);
  for (const entry of ready.committed) lines.push(`apply ${describeEntry(entry)}`);
  for (const read of ready.reads)
    lines.push(`read ${read.token}: ${read.kind === "readable" ? `at ${read.end}` : "failed"}`);
  return lines;
}

const answer = (result: { readonly kind: string; readonly reason?: string; readonly index?: number }): string =>
  [result.kind, result.index, result.reason].filter((part) => part !== undefined).join(" ");

/** `1` -> to node 1; `1 2` -> from 1 to 2. */
function between(words: readonly string[]): (message: Message) => boolean {
  const [first, second] = words.map(id);
  if (first === undefined) return () => true;
  if (second === undefined) return ({ to }) => to === first;
  return ({ from, to }) => from === first && to === second;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  tick: (cluster, [name = "", count = "1"]) => {
    cluster.tick(name, Number(count));
    return cluster.describe(name);
  },
  campaign: (cluster, [name = ""]) => {
    cluster.core(name).campaign();
    return cluster.describe(name);
  },
  propose: (cluster, [name = "", text = ""]) =>
    answer(cluster.core(name).propose({ bytes: new TextEncoder().encode(text) })),
  "add-learner": (cluster, [name = "", replica = ""]) =>
    answer(cluster.core(name).proposeConfChange({ kind: "addLearner", replica: id(replica) })),
  promote: (cluster, [name = "", replica = ""]) =>
    answer(cluster.core(name).proposeConfChange({ kind: "promote", replica: id(replica) })),
  remove: (cluster, [name = "", replica = ""]) =>
    answer(cluster.core(name).proposeConfChange({ kind: "remove", replica: id(replica) })),
  transfer: (cluster, [name = "", target = ""]) => answer(cluster.core(name).transferLeadership(id(target))),
  read: (cluster, [name = "", token = "1"]) => answer(cluster.core(name).readIndex(Number(token))),
  ready: (cluster, [name = ""]) => {
    const ready = cluster.take(name);
    return ready === null ? "nothing" : describeReady(ready);
  },
  sync: (cluster, [name = ""]) => {
    const batches = cluster.sync(name).map((batch) => `batch ${batch.id} is durable`);
    return batches.length === 0 ? "nothing to sync" : batches;
  },
  "keep-snapshot": (cluster, [name = ""]) => `the snapshot that ends at ${cluster.keepArrived(name).end} is durable`,
  deliver: (cluster, words) => cluster.deliver(between(words)).map(arrow),
  drop: (cluster, words) => cluster.drop(between(words)).map((message) => `lost: ${arrow(message)}`),
  stabilize: (cluster, words) => cluster.stabilize(words.length === 0 ? undefined : words).map(arrow),
  crash: (cluster, [name = ""]) => {
    cluster.crash(name);
    return "";
  },
  restart: (cluster, [name = ""]) => {
    cluster.restart(name);
    return cluster.describe(name);
  },
  "add-empty": (cluster, [name = ""]) => {
    cluster.add(id(name));
    return cluster.describe(name);
  },
  "fail-disk": (cluster, [name = ""]) => {
    cluster.node(name).pending = [];
    cluster.core(name).storageFailed();
    return cluster.describe(name);
  },
  "repair-disk": (cluster, [name = ""]) => {
    cluster.core(name).storageRecovered();
    return cluster.describe(name);
  },
  unreachable: (cluster, [name = "", peer = ""]) => {
    cluster.core(name).peerUnreachable(id(peer));
    return cluster.describe(name);
  },
  snapshot: (cluster, [name = ""]) => {
    const meta = cluster.snapshot(name);
    return meta === undefined ? "nothing new" : `snapshot (${meta.end}, term ${meta.lastTerm})`;
  },
  status: (cluster, words) =>
    (words.length === 0 ? [...cluster.nodes.keys()] : words).map((name) => cluster.describe(name)),
  applied: (cluster, [name = ""]) => cluster.node(name).applied.join(" ") || "nothing",
  "log-on-disk": (cluster, [name = ""]) => cluster.logOnDisk(name),
};

/**
 * Runs a transcript: blocks between empty lines, each of commands, a line `----` and what they print. The first line is
 * `nodes N`, with `setting=number` after it. `quiet` before a command leaves its output out. Lines with # are for the reader.
 */
export function runTranscript(text: string): string {
  const blocks = text.trim().split(/\n\s*\n/);
  let cluster: Cluster | undefined;
  const output = blocks.map((block) => {
    const [head = ""] = block.split(/\n?----/);
    const lines = head.split("\n").flatMap((line) => {
      if (line.startsWith("#")) return [];
      const [first = "", ...words] = line.trim().split(/\s+/);
      if (first === "nodes") {
        cluster = new Cluster(Number(words[0]), settingsOf(words.slice(1)));
        return [];
      }
      if (cluster === undefined) throw new Error("a transcript begins with: nodes N");
      return run(cluster, [first, ...words]);
    });
    return `${head.trimEnd()}\n----\n${lines.join("\n")}`.trimEnd();
  });
  return `${output.join("\n\n")}\n`;
}

function run(cluster: Cluster, [first = "", ...words]: readonly string[]): string[] {
  const [name = "", ...rest] = first === "quiet" ? words : [first, ...words];
  const command = COMMANDS[name];
  if (command === undefined) throw new Error(`no command ${name}`);
  const printed = [guarded(() => command(cluster, rest))].flat().filter((line) => line !== "");
  return first === "quiet" ? [] : printed;
}

/** A failed assertion is output as well. */
function guarded(act: () => string | string[]): string | string[] {
  try {
    return act();
  } catch (error) {
    if (error instanceof AssertionFailure) return `ASSERTION ${error.message}`;
    throw error;
  }
}

const settingsOf = (words: readonly string[]): Record<string, number> =>
  Object.fromEntries(words.map((word) => word.split("=")).map(([name = "", value = ""]) => [name, Number(value)]));
