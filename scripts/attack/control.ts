// A connection that does as it should, all the time: each of its answers shows that the node has got on. So "no answer" is told by what the node did
// meanwhile and not by a clock, which a busy machine would make a liar.
import { setTimeout as sleep } from "node:timers/promises";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { Counts, RawPeer } from "./raw-peer.ts";

const PAUSE_MS = 10;

interface Waiter {
  readonly round: number;
  readonly resolve: () => void;
}

export class Control {
  readonly #peer: RawPeer;
  #round = 0;
  #waiting: Waiter[] = [];
  #isEnding = false;
  /** Why it ended, which it must not. */
  fault: string | undefined;

  constructor(address: string) {
    this.#peer = new RawPeer(address, new Counts());
    const header = { api: API.HELLO, version: 0, correlationId: 0, deadlineMs: 0 } as const;
    this.#peer.send(encodeRequest(header, { clientId: "control", software: "attack 1" }, []));
    void this.#run();
  }

  /** When the node has answered this many requests that were sent from now on; at once when it never will. */
  async rounds(count: number): Promise<void> {
    if (this.fault !== undefined || this.#isEnding) return;
    const round = this.#round + 1 + count;
    await new Promise<void>((resolve) => this.#waiting.push({ round, resolve }));
  }

  end(): void {
    this.#isEnding = true;
    this.#peer.destroy();
  }

  async #run(): Promise<void> {
    while (!this.#isEnding) {
      const correlationId = ++this.#round;
      const answer = this.#peer.answerTo(correlationId);
      this.#peer.send(
        encodeRequest({ api: API.LIST_OFFSETS, version: 0, correlationId, deadlineMs: 0 }, { entries: [] }, []),
      );
      if ((await answer) === undefined) break;
      const done = this.#waiting.filter(({ round }) => round <= correlationId);
      this.#waiting = this.#waiting.filter(({ round }) => round > correlationId);
      for (const { resolve } of done) resolve();
      await sleep(PAUSE_MS);
    }
    if (!this.#isEnding) this.fault = `the control connection ended: ${this.#peer.closeReason ?? "?"}`;
    for (const { resolve } of this.#waiting.splice(0)) resolve();
  }
}
