// Flags of scripts that people run: --help says what there is, and what makes no sense ends in a line of text and exit code 2.
import { parseArgs, type ParseArgsConfig } from "node:util";

type Flags = NonNullable<ParseArgsConfig["options"]>;
type Values<Options extends Flags> = ReturnType<
  typeof parseArgs<{ options: Options; allowPositionals: boolean }>
>["values"];

/** `allowPositionals`: what is no flag is for somebody else to read. */
export function flagsOf<const Options extends Flags>(
  usage: string,
  options: Options,
  { allowPositionals = false } = {},
): Values<Options> {
  if (process.argv.slice(2).some((flag) => flag === "--help" || flag === "-h")) {
    console.log(`usage: ${usage}`);
    process.exit(0);
  }
  try {
    return parseArgs<{ options: Options; allowPositionals: boolean }>({ options, allowPositionals }).values;
  } catch (error) {
    return refuse(usage, error instanceof Error ? error.message : String(error));
  }
}

export function refuse(usage: string, why: string): never {
  console.error(`${why}\nusage: ${usage}`);
  process.exit(2);
}

export function countOf(usage: string, flag: string, text: string): number {
  const count = Number(text);
  return Number.isInteger(count) && count >= 1 ? count : refuse(usage, `${flag} takes a number from 1 on, not ${text}`);
}
