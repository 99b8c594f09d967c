// The live table of `cluster up` on a terminal: drawn in place, with keys. Quiet: nothing is written while nothing changes.
import { adviceFor } from "../cluster/advice.ts";
import type { ClusterView } from "../cluster/view.ts";
import { failureLines } from "../failure.ts";
import { lastLogLines } from "../log-tail.ts";
import type { StartedCluster, Presenter } from "./presenter.ts";
import { type ClusterKey, type KeyAction, KeyReader } from "./keys.ts";
import { Redraw } from "./redraw.ts";
import { screenLines } from "./screen.ts";

const LOG_LINES = 40;
const LOG_REFRESH_MS = 500;
const MESSAGE_MS = 5000;

export interface LiveOptions {
  readonly paint: boolean;
  /** As a person would write it. */
  readonly dataDir: string;
  /** How the command is called there. */
  readonly ottla: string;
  readonly nodeIds: readonly number[];
  /** False: keys are not read (stdin is no terminal). */
  readonly hasKeys: boolean;
  logFileOf(nodeId: number): string;
  onAction(action: ClusterKey): void;
}

export class LiveScreen implements Presenter {
  readonly #options: LiveOptions;
  readonly #redraw = new Redraw(process.stdout);
  readonly #keys: KeyReader;
  readonly #onResize = () => this.#startOver();
  readonly #onTyped = (typed: string) => this.#typed(typed);
  #view: ClusterView | undefined;
  #message: string | null = null;
  #saidMs = 0;
  #log: { readonly nodeId: number; readonly timer: NodeJS.Timeout } | undefined;

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#keys = new KeyReader(options.nodeIds);
    process.stdout.on("resize", this.#onResize);
    process.on("SIGCONT", this.#onResize);
    if (!options.hasKeys) return;
    process.stdin.setRawMode(true);
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", this.#onTyped);
    // A terminal that is gone: SIGHUP says so too.
    process.stdin.on("error", () => undefined);
  }

  started(_cluster: StartedCluster): void {
    // The table tells it.
  }

  update(view: ClusterView): void {
    this.#view = view;
    // By then the table shows what it announced.
    if (performance.now() - this.#saidMs > MESSAGE_MS) this.#message = null;
    this.#draw();
  }

  ready(seconds: number): void {
    this.say(`ready in ${seconds.toFixed(1)} s`);
  }

  fault({ failure, details }: Parameters<Presenter["fault"]>[0]): void {
    this.#redraw.print([...details.map((text) => `  | ${text}`), ...failureLines(failure)].join("\n"));
  }

  note(text: string): void {
    this.#redraw.print(text.trim());
  }

  stopping(): void {
    this.#closeLog();
    this.#keys.cancel();
    this.#message = null;
    this.#draw();
  }

  /** What came of a key. */
  say(message: string): void {
    this.#message = message;
    this.#saidMs = performance.now();
    this.#draw();
  }

  end(): void {
    this.#closeLog();
    process.stdout.off("resize", this.#onResize);
    process.off("SIGCONT", this.#onResize);
    if (this.#options.hasKeys) {
      process.stdin.off("data", this.#onTyped);
      process.stdin.setRawMode(false);
      process.stdin.pause();
    }
    this.#redraw.end();
  }

  #typed(typed: string): void {
    for (const action of this.#keys.read(typed)) this.#act(action);
    this.#draw();
  }

  #act(action: KeyAction): void {
    switch (action.kind) {
      case "logs":
        return this.#showLog(action.nodeId);
      case "close-logs":
        return this.#closeLog();
      case "redraw":
        return this.#startOver();
      case "kill":
      case "start":
      case "pause":
      case "quit":
      case "interrupt":
        return this.#options.onAction(action);
    }
  }

  #showLog(nodeId: number): void {
    this.#closeLog();
    this.#log = { nodeId, timer: setInterval(() => this.#draw(), LOG_REFRESH_MS) };
  }

  #closeLog(): void {
    clearInterval(this.#log?.timer);
    this.#log = undefined;
  }

  #startOver(): void {
    // Its settings may have been changed by whoever had the terminal meanwhile.
    if (this.#options.hasKeys) process.stdin.setRawMode(true);
    this.#redraw.startOver();
    this.#draw();
  }

  #draw(): void {
    const view = this.#view;
    if (view === undefined) return;
    const { dataDir, ottla, paint, hasKeys } = this.#options;
    const log = this.#log && {
      nodeId: this.#log.nodeId,
      lines: lastLogLines(this.#options.logFileOf(this.#log.nodeId), LOG_LINES),
    };
    const { columns, rows } = process.stdout;
    const model = {
      view,
      dataDir,
      advice: adviceFor(view, ottla),
      message: this.#message,
      prompt: hasKeys ? this.#keys.prompt : "Ctrl-C stops it",
      log: log ?? null,
    };
    this.#redraw.draw(screenLines(model, { columns: columns || 80, rows: rows || 24, paint }));
  }
}
