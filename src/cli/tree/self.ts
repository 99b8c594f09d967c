// `ottla errors` and `ottla completion`.
import type { Command } from "commander";
import { type Act, examples } from "./act.ts";

export function addSelfTeaching(program: Command, act: Act): void {
  const errors = program
    .command("errors")
    .argument("[code]")
    .description("what an error code means and what to do")
    .addHelpText("after", examples("ottla errors", "ottla errors NOT_ENOUGH_REPLICAS"));
  act(errors, async () => (await import("../commands/errors.ts")).errors);
  const completion = program
    .command("completion")
    .argument("<shell>", "bash, zsh or fish")
    .description("print a completion script for a shell")
    .addHelpText(
      "after",
      examples("source <(ottla completion bash)", "ottla completion fish > ~/.config/fish/completions/ottla.fish"),
    );
  act(completion, async () => {
    const { completion: run } = await import("../commands/completion.ts");
    return (invocation) => run(invocation, program);
  });
}
