// `ottla bench report`.
import type { Command } from "commander";
import { type Act, examples, prose } from "./act.ts";

export function addBenchReport(bench: Command, act: Act): void {
  const report = bench
    .command("report")
    .argument("<results...>", "files that --out of the other verbs has written")
    .description("make one HTML file of results: latency over time, percentile curves, acks levels compared")
    .option("-o, --out <file.html>", "where to", "report.html")
    .addHelpText(
      "after",
      prose(`
The file holds everything that it shows and asks no network for anything. Results of several machines, commits or clusters may be put together: what differs tells their runs apart.`),
    )
    .addHelpText(
      "after",
      examples("ottla bench report result.json", "ottla bench report before.json after.json -o compared.html"),
    );
  act(report, async () => (await import("../commands/bench-report.ts")).benchReport);
}
