// A crowd as its parent sees it: a process of its own, which gives way to all others, since it stands for other machines.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";
import { forkScript } from "./child.ts";
import type { CrowdAsked, CrowdTold } from "./crowd-answers.ts";

const CROWD_NICE = 10;

export class CrowdProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  /** `plan` is its argument, as JSON. */
  constructor(script: string, plan: unknown) {
    this.#child = forkScript(script, [JSON.stringify(plan)]);
    if (this.#child.pid !== undefined) setPriority(this.#child.pid, CROWD_NICE);
    this.#ended = once(this.#child, "exit").then(([code]) => {
      throw new Error(`the crowd ended with ${code}`);
    });
    this.#ended.catch(() => {});
  }

  async ask(asked: CrowdAsked): Promise<CrowdTold> {
    this.#child.send(asked);
    const told = once(this.#child, "message") as Promise<[CrowdTold]>;
    const [{ cut, produced }] = await Promise.race([told, this.#ended]);
    return { cut, produced };
  }

  kill(): void {
    if (this.#child.exitCode === null) this.#child.kill("SIGKILL");
  }
}
