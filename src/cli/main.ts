#!/usr/bin/env -S node --initial-old-space-size=128
// The `ottla` command: runs the program, words its failure, ends with its exit code.
import { EXIT } from "../model/exit-codes.ts";
import { failureOf, outputFailure, stackOf } from "./failure.ts";
import { failureText, wantsColour } from "./output.ts";
import { runProgram } from "./program.ts";

function onOutputFault(error: NodeJS.ErrnoException): void {
  /** What the command has ended with, if it has. */
  const ended = process.exitCode ?? EXIT.OK;
  // Whoever reads our output has had enough (`ottla consume t | head`): a quiet, good end.
  if (error.code === "EPIPE") process.exit(ended);
  // A closed terminal: what is to happen then is for SIGHUP to say.
  if (error.code === "EIO" && process.stdout.isTTY) return;
  const exitCode = report(outputFailure(error));
  process.exit(ended === EXIT.OK ? exitCode : ended);
}

/** A reader of what is no data, or of what may be missing, holds the end up no longer than this. */
const OUTPUT_GRACE_MS = 1000;

function end(exitCode: number): void {
  process.exitCode = exitCode;
  // That the last write failed is told a moment after it.
  const leave = (): void => void setImmediate(() => process.exit(exitCode));
  // A pipe takes what was written as fast as it is read.
  process.stdout.write("", () => {
    process.stderr.write("", leave);
    setTimeout(leave, OUTPUT_GRACE_MS);
  });
  if (!process.stdout.listeners("error").includes(onOutputFault)) setTimeout(leave, OUTPUT_GRACE_MS);
}

function report(thrown: unknown): number {
  const failure = failureOf(thrown);
  const arguments_ = process.argv.slice(2);
  const isJson = arguments_.includes("--json");
  const flags = arguments_.includes("--no-color") ? { color: false } : {};
  process.stderr.write(failureText(failure, { isJson, paint: wantsColour(process.stderr.isTTY === true, flags) }));
  const verbosity = arguments_.reduce(
    (count, text) => count + (/^-v+$/.test(text) ? text.length - 1 : text === "--verbose" ? 1 : 0),
    0,
  );
  if (verbosity >= 2) process.stderr.write(`${stackOf(thrown)}\n`);
  return failure.exitCode;
}

process.stdout.on("error", onOutputFault);
process.stderr.on("error", () => undefined);
// The client's timers do not keep a process alive; while a command waits for one of them, this does. The exit below ends it.
setInterval(() => undefined, 0x7fffffff);
runProgram(process.argv.slice(2)).then(end, (thrown: unknown) => end(report(thrown)));
