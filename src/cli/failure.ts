// What a person or a script is told when a command fails: one line `error[CODE]: message`, a hint, an exit code.
import { AssertionFailure } from "../base/assert.ts";
import { type ErrorName, ERRORS, OttlaError } from "../model/errors.ts";
import { EXIT } from "../model/exit-codes.ts";
import { UsageError } from "./values.ts";

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly exitCode: number;
}

/** A failure that is already worded, with its exit code; also what a node told its launcher. */
export class CommandFailure extends Error implements Failure {
  override readonly name = "CommandFailure";
  readonly code: string;
  readonly hint: string;
  readonly exitCode: number;

  constructor(failure: Failure, cause?: unknown) {
    super(failure.message, cause === undefined ? undefined : { cause });
    this.code = failure.code;
    this.hint = failure.hint;
    this.exitCode = failure.exitCode;
  }
}

const EXIT_OF: Readonly<Partial<Record<ErrorName, number>>> = {
  CONNECTION_FAILED: EXIT.UNREACHABLE,
  CONNECTION_LOST: EXIT.UNREACHABLE,
  REQUEST_TIMED_OUT: EXIT.UNREACHABLE,
  DELIVERY_TIMED_OUT: EXIT.UNREACHABLE,
  PROTOCOL_ERROR: EXIT.UNREACHABLE,
  NOT_CONTROLLER: EXIT.UNREACHABLE,
  BROKER_NOT_AVAILABLE: EXIT.UNREACHABLE,
  NOT_LEADER_OR_FOLLOWER: EXIT.UNREACHABLE,
  LEADER_NOT_AVAILABLE: EXIT.UNREACHABLE,
  BROKER_ID_NOT_REGISTERED: EXIT.NOT_FOUND,
  VOTER_NOT_FOUND: EXIT.NOT_FOUND,
  INVALID_UPDATE_VERSION: EXIT.USAGE,
  INVALID_TOPIC_EXCEPTION: EXIT.USAGE,
  INVALID_PARTITIONS: EXIT.USAGE,
  INVALID_REPLICATION_FACTOR: EXIT.USAGE,
  INVALID_CONFIG: EXIT.USAGE,
  POLICY_VIOLATION: EXIT.USAGE,
  INVALID_REQUIRED_ACKS: EXIT.USAGE,
  UNKNOWN_TOPIC_OR_PARTITION: EXIT.NOT_FOUND,
  UNKNOWN_TOPIC_ID: EXIT.NOT_FOUND,
  CONFIG_UNREADABLE: EXIT.USAGE,
  DATA_DIR_LOCKED: EXIT.DATA_DIR_REFUSED,
  DATA_DIR_FOREIGN: EXIT.DATA_DIR_REFUSED,
  DATA_DIR_NEWER: EXIT.DATA_DIR_REFUSED,
  DATA_DIR_READ_ONLY: EXIT.DATA_DIR_REFUSED,
  DISK_FAILED: EXIT.DISK_FAILED,
  DATA_DAMAGED: EXIT.INVARIANT_BROKEN,
};

export function exitCodeOf(code: ErrorName): number {
  return EXIT_OF[code] ?? EXIT.FAILED;
}

/** A port that takes connections and drops them may be anything. */
function hintOf(error: OttlaError): string {
  const wasDropped = error.code === "CONNECTION_FAILED" && causesOf(error).some((cause) => cause.code === "ECONNRESET");
  return wasDropped ? `it takes connections but drops them: ${ERRORS.PROTOCOL_ERROR.hint}` : error.hint;
}

function causesOf(error: Error): NodeJS.ErrnoException[] {
  const causes: NodeJS.ErrnoException[] = [];
  for (let cause = error.cause; cause instanceof Error && causes.length < 10; cause = cause.cause) causes.push(cause);
  return causes;
}

export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof CommandFailure) {
    // A plain object: an Error's message does not survive being copied or sent.
    const { code, message, hint, exitCode } = thrown;
    return { code, message, hint, exitCode };
  }
  if (thrown instanceof UsageError) {
    return { code: "USAGE", message: thrown.message, hint: thrown.hint, exitCode: EXIT.USAGE };
  }
  if (thrown instanceof OttlaError) {
    const message = thrown.message.replace(/(\S+): not-ottla\b/g, "$1 answers, but is no Ottla broker");
    return { code: thrown.code, message, hint: hintOf(thrown), exitCode: exitCodeOf(thrown.code) };
  }
  if (thrown instanceof AssertionFailure) {
    const hint = "this is a bug in Ottla: please report it with the output of the same command and -vv";
    return { code: "BUG", message: thrown.message, hint, exitCode: EXIT.BUG };
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { code: "UNEXPECTED", message, hint: "run it again with -vv for a stack", exitCode: EXIT.FAILED };
}

/** Of standard output: what was printed is not all there. */
export function outputFailure(cause: NodeJS.ErrnoException): CommandFailure {
  const message = `the output cannot be written: ${cause.message}`;
  const hint = cause.code === "ENOSPC" ? "free space there, or send it elsewhere" : "send it elsewhere";
  return new CommandFailure({ code: "OUTPUT_FAILED", message, hint, exitCode: EXIT.FAILED }, cause);
}

/** Control characters of names and peers' texts must not reach a terminal or break the one-line rule. */
export function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  return text.replace(/\s*\n\s*/g, "; ").replace(/[\u0000-\u001f\u007f-\u009f]/g, "?");
}

export function failureLines(failure: Failure): string[] {
  const lines = [`error[${failure.code}]: ${oneLine(failure.message)}`];
  if (failure.hint !== "") lines.push(`hint: ${oneLine(failure.hint)}`);
  return lines;
}

/** The stack with its causes, for -vv. */
export function stackOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const own = thrown.stack ?? thrown.message;
  return thrown.cause === undefined ? own : `${own}\ncaused by: ${stackOf(thrown.cause)}`;
}
