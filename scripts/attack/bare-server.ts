// What the same crowd costs another client of a server with nothing in it: a process that receives messages through `ws`, writes them to one file of
// fixed length, syncs it and answers. No protocol, no checksums, no segments, no followers, nobody who reads.
import { type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { WebSocket } from "ws";
import { createRng } from "../../src/base/rng.ts";
import { NODE_HEAP } from "../../src/cli/node-child.ts";
import type { BareCrowdPlan } from "./bare-crowd-child.ts";
import { batch } from "./batches.ts";
import { forkScript } from "./child.ts";
import { CrowdProcess } from "./crowd-process.ts";
import type { Side } from "./crowd-phases.ts";

const SERVER = join(import.meta.dirname, "bare-server-child.ts");
const CROWD = join(import.meta.dirname, "bare-crowd-child.ts");

export interface BareSpec {
  readonly path: string;
  readonly behind?: string;
  readonly idle: number;
  readonly batchBytes: number;
}

export class BareSide implements Side {
  readonly crowd: CrowdProcess;
  readonly #child: ChildProcess;
  readonly #socket: WebSocket;
  readonly #died: Promise<never>;

  private constructor(child: ChildProcess, died: Promise<never>, socket: WebSocket, plan: BareCrowdPlan) {
    this.#child = child;
    this.#died = died;
    this.#socket = socket;
    this.crowd = new CrowdProcess(CROWD, plan);
  }

  /** Its file is `path`, which is not there yet. `behind`: a directory for what gets every byte again, behind its answer, and is synced as well. */
  static async start({ path, behind, ...crowd }: BareSpec): Promise<BareSide> {
    const child = forkScript(SERVER, behind === undefined ? [path] : [path, behind], NODE_HEAP);
    const died = once(child, "exit").then(([code]) => Promise.reject(new Error(`the bare server ended with ${code}`)));
    died.catch(() => {});
    const [port] = (await Promise.race([once(child, "message"), died])) as [number];
    const address = `127.0.0.1:${port}`;
    const socket = new WebSocket(`ws://${address}`, { perMessageDeflate: false });
    await Promise.race([once(socket, "open"), died]);
    return new BareSide(child, died, socket, { address, ...crowd });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  sender(): { send(): Promise<unknown>; close(): Promise<void> } {
    const message = batch(createRng(1), { records: 1, valueBytes: 16, isWhole: true });
    const send = async (): Promise<void> => {
      const answered = once(this.#socket, "message");
      this.#socket.send(message);
      await Promise.race([answered, this.#died]);
    };
    return { send, close: async () => {} };
  }

  kill(): void {
    this.crowd.kill();
    this.#socket.terminate();
    this.#child.kill("SIGKILL");
  }
}
