// ottla completion bash|zsh|fish: a script made from the command tree, so it cannot fall behind it.
import type { Command } from "commander";
import { EXIT } from "../../model/exit-codes.ts";
import type { Invocation } from "../invocation.ts";
import { UsageError } from "../values.ts";

interface Entry {
  /** "topic create"; "" is the program itself. */
  readonly path: string;
  readonly verbs: readonly { readonly name: string; readonly about: string }[];
  readonly flags: readonly { readonly long: string; readonly short: string | undefined; readonly about: string }[];
}

export async function completion({ args, output }: Invocation, program: Command): Promise<number> {
  const entries = collect(program, "");
  const shell = args[0] ?? "";
  const scripts: Readonly<Record<string, (entries: readonly Entry[]) => string>> = { bash, zsh, fish };
  const make = scripts[shell];
  if (make === undefined) throw new UsageError(`completion takes bash, zsh or fish, not "${shell}"`);
  output.line(make(entries));
  return EXIT.OK;
}

function collect(command: Command, path: string): Entry[] {
  const verbs = command.commands.map((child) => ({ name: child.name(), about: child.description() }));
  const flags = command.options
    .filter((option) => !option.hidden)
    .map((option) => ({ long: option.long ?? "", short: option.short, about: option.description }));
  const children = command.commands.flatMap((child) =>
    collect(child, path === "" ? child.name() : `${path} ${child.name()}`),
  );
  return [{ path, verbs, flags }, ...children];
}

const globalFlags = (entries: readonly Entry[]) => entries.find((entry) => entry.path === "")?.flags ?? [];

function wordsOf(entry: Entry, entries: readonly Entry[]): string {
  const flags = [...entry.flags, ...(entry.path === "" ? [] : globalFlags(entries))];
  return [...entry.verbs.map((verb) => verb.name), ...flags.map((flag) => flag.long), "--help"].join(" ");
}

function bash(entries: readonly Entry[]): string {
  const cases = entries.map((entry) => `    "${entry.path}") words="${wordsOf(entry, entries)}" ;;`);
  const paths = entries.filter((entry) => entry.path !== "").map((entry) => `"${entry.path}"`);
  return `# bash completion of ottla: source <(ottla completion bash)
_ottla() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" word words="" index
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "\${path:+$path }$word" in
      ${paths.join("|")}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _ottla ottla`;
}

function zsh(entries: readonly Entry[]): string {
  return `#compdef ottla
# zsh completion of ottla: source <(ottla completion zsh)
autoload -U +X bashcompinit && bashcompinit
${bash(entries)}`;
}

function fish(entries: readonly Entry[]): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = entries.flatMap((entry) => {
    const words = entry.path.split(" ").filter((word) => word !== "");
    const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`);
    const verbsWhen =
      words.length === 0
        ? "__fish_use_subcommand"
        : [...seen, `not __fish_seen_subcommand_from ${entry.verbs.map((verb) => verb.name).join(" ")}`].join("; and ");
    const verbs = entry.verbs.map(
      (verb) => `complete -c ottla -f -n ${quote(verbsWhen)} -a ${verb.name} -d ${quote(verb.about)}`,
    );
    const flagsWhen = seen.length === 0 ? "" : ` -n ${quote(seen.join("; and "))}`;
    const flags = entry.flags.map((flag) => {
      const short = flag.short === undefined ? "" : ` -s ${flag.short.replace(/^-/, "")}`;
      return `complete -c ottla${flagsWhen} -l ${flag.long.replace(/^--/, "")}${short} -d ${quote(flag.about)}`;
    });
    return [...verbs, ...flags];
  });
  return `# fish completion of ottla\n${lines.join("\n")}`;
}
