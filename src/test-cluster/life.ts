// One life of a node, from its start to its end: all that reaches the node passes here, so that it can be held back, as by SIGSTOP, and cut off for
// good, as by `kill -9`, in a process that goes on.
import { setImmediate } from "../platform/host-time.ts";

interface Waiting {
  readonly work: () => void;
  readonly dropped: (() => void) | undefined;
}

/** Gives back how to stop. */
type Ending = () => void;

export class Life {
  #state: "running" | "held" | "ended" = "running";
  #waiting: Waiting[] = [];
  /** Turns of the event loop that are going to take one piece of work each. */
  #turns = 0;
  readonly #onHeld = new Set<{ hold(): void; release(): void }>();
  readonly #endings = new Set<Ending>();
  #callEnded: () => void = () => undefined;
  /** Resolves with the end. */
  readonly ended = new Promise<void>((resolve) => {
    this.#callEnded = resolve;
  });

  get isHeld(): boolean {
    return this.#state === "held";
  }

  get isEnded(): boolean {
    return this.#state === "ended";
  }

  /** Runs it now; while the node is held, later and in order; never once it has ended, when `dropped` is called instead. */
  run(work: () => void, dropped?: () => void): void {
    if (this.#state === "ended") dropped?.();
    else if (this.#state === "held" || this.#waiting.length > 0) this.#waiting.push({ work, dropped });
    else work();
  }

  /** What `start` gives, told to the node only while it runs: never once it has ended. `late` gets what comes after that. */
  call<T>(start: () => Promise<T>, late?: (value: T) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      this.run(() => {
        start().then(
          (value) =>
            this.run(
              () => resolve(value),
              () => late?.(value),
            ),
          (thrown: unknown) => this.run(() => reject(thrown as Error)),
        );
      });
    });
  }

  /** Is told of every pause, for what must stop at its source. */
  watch(watcher: { hold(): void; release(): void }): Ending {
    this.#onHeld.add(watcher);
    if (this.isHeld) watcher.hold();
    return () => void this.#onHeld.delete(watcher);
  }

  /** Is called at the end, unless it is taken back. */
  atEnd(ending: Ending): Ending {
    if (this.isEnded) ending();
    else this.#endings.add(ending);
    return () => void this.#endings.delete(ending);
  }

  hold(): void {
    if (this.#state !== "running") return;
    this.#state = "held";
    for (const watcher of this.#onHeld) watcher.hold();
  }

  release(): void {
    if (this.#state !== "held") return;
    this.#state = "running";
    for (const watcher of this.#onHeld) watcher.release();
    this.#takeTurns();
  }

  end(): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    const dropped = this.#waiting;
    this.#waiting = [];
    for (const ending of this.#endings) ending();
    for (const each of dropped) each.dropped?.();
    this.#endings.clear();
    this.#onHeld.clear();
    this.#callEnded();
  }

  /** Each in a turn of its own, as the event loop does it: what one resolves runs before the next. */
  #takeTurns(): void {
    for (const _ of this.#waiting) {
      this.#turns++;
      setImmediate(() => this.#takeTurn());
    }
  }

  #takeTurn(): void {
    this.#turns--;
    try {
      if (this.#state === "running") this.#waiting.shift()?.work();
    } finally {
      if (this.#turns === 0 && this.#state === "running") this.#takeTurns();
    }
  }
}
