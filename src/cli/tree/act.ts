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

const WIDTH = 80;

/** Help text for any terminal: paragraphs end with a full stop or a colon, or where a line is indented; those hang on their second column. */
export function prose(text: string): string {
  const paragraphs: string[] = [];
  for (const line of text.split("\n")) {
    const last = paragraphs.at(-1);
    const goesOn = last !== undefined && last !== "" && line !== "" && !line.startsWith(" ") && !/[.:]$/.test(last);
    if (goesOn) paragraphs[paragraphs.length - 1] = `${last} ${line}`;
    else paragraphs.push(line);
  }
  return paragraphs.flatMap(wrapped).join("\n");
}

function wrapped(paragraph: string): string[] {
  if (paragraph.length <= WIDTH) return [paragraph];
  const [head = ""] = /^( +\S+(?: \S+)* {2,})?/.exec(paragraph) ?? [];
  const indent = " ".repeat(head === "" ? (/^ */.exec(paragraph)?.[0].length ?? 0) : head.length);
  const lines: string[] = [];
  let line = head === "" ? indent : head;
  let isEmpty = true;
  for (const word of paragraph.slice(line.length).split(" ")) {
    if (!isEmpty && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = indent;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}
