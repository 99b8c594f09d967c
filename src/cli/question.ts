// A question to a person at a terminal that is answered with yes or no, or not at all.
import { createInterface } from "node:readline";

export type Answer = "yes" | "no" | "interrupted";

export interface QuestionStreams {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
}

/** Ctrl-C interrupts; the end of the input is a no. */
export function askYesNo(question: string, { input, output }: QuestionStreams): Promise<Answer> {
  const lines = createInterface({ input, output, terminal: true });
  return new Promise<Answer>((resolve) => {
    const settle = (answer: Answer, ending: string) => {
      output.write(ending);
      resolve(answer);
      lines.close();
    };
    lines.once("SIGINT", () => settle("interrupted", "\n"));
    lines.once("close", () => settle("no", ""));
    lines.question(question, (text) => settle(/^y(es)?$/i.test(text.trim()) ? "yes" : "no", ""));
  });
}
