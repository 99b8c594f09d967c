// What the groups of the command tree are built with.
import type { Command } from "commander";
import type { Invocation } from "../invocation.ts";

export type Run<Flags> = (invocation: Invocation<Flags>) => Promise<number>;
/** Gives a command its action; its code is loaded only when it runs, so that --help stays fast. */
export type Act = <Flags>(command: Command, load: () => Promise<Run<Flags>>) => void;

export const examples = (...lines: readonly string[]) =>
  `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;

/** A repeatable flag. */
export const gather = (value: string, before: readonly string[] = []) => [...before, value];
