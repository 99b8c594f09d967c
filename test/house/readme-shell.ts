// Turns the ```sh blocks of a README into one script that a test can run: what would install, test or never end is
// replaced, and each replacement says so.

export interface ReadmeScript {
  readonly blocks: number;
  /** For `bash -e`. */
  readonly script: string;
  readonly notices: readonly string[];
}

export function shellBlocks(markdown: string): string[] {
  return [...markdown.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block ?? "");
}

/** Why a command is not run as it stands; undefined when it is. */
function whyNot(command: string): string | undefined {
  if (/^npm (ci|install|i)\b/.test(command)) return "the copy is installed already";
  if (/^npm (test|run (check|test|mutants|sim|bench|fuzz|chaos))\b/.test(command)) return "this test is part of it";
  if (/^npm start$/.test(command)) return "it runs until Ctrl-C; npm start -- --detach is run instead";
  if (/^git clone\b|^cd\b/.test(command)) return "the copy is here already";
  if (command.startsWith("alias ottla=")) return "ottla is on the PATH here";
  return undefined;
}

/** One command line of the README, its comment dropped and its parts beside `&&` judged one by one. */
function runnable(line: string, notices: string[]): string {
  const command = line.replace(/\s+#\s.*$/, "").trim();
  if (command === "" || command.startsWith("#")) return "";
  const parts = command.split(/\s+&&\s+/).flatMap((part) => {
    const reason = whyNot(part);
    if (reason === undefined) return [part];
    notices.push(`not run: ${part} (${reason})`);
    return [];
  });
  return parts.join(" && ");
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function readmeScript(markdown: string): ReadmeScript {
  const blocks = shellBlocks(markdown);
  const notices: string[] = [];
  const lines = blocks.flatMap((block) => block.replaceAll("\\\n", " ").split("\n"));
  const commands = lines.map((line) => runnable(line, notices)).filter((command) => command !== "");
  const echoed = commands.flatMap((command) => [`echo ${quoted(`$ ${command}`)} >&2`, command]);
  return { blocks: blocks.length, script: `${["set -eo pipefail", ...echoed].join("\n")}\n`, notices };
}
