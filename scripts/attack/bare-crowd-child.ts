// A crowd beside a client of the bare server: connections that are only there, and one that sends the largest batches, so many a second whether they
// are answered or not, so that the server carries what the broker carried. What it is told and tells: see crowd-answers.ts.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { createRng } from "../../src/base/rng.ts";
import { batch } from "./batches.ts";
import { answerCrowd, type Gathering } from "./crowd-answers.ts";
import { Counts, openPeers, RawPeer } from "./raw-peer.ts";

export interface BareCrowdPlan {
  readonly address: string;
  readonly idle: number;
  readonly batchBytes: number;
}

class BareCrowd implements Gathering {
  readonly #plan: BareCrowdPlan;
  #idle: RawPeer[] = [];
  #isGathered = false;
  #producing: Promise<void> = Promise.resolve();
  #cutBefore = 0;
  produced = 0;

  constructor(plan: BareCrowdPlan) {
    this.#plan = plan;
  }

  get cut(): number {
    return this.#cutBefore + this.#idle.filter(({ closeReason }) => closeReason !== undefined).length;
  }

  async gather(perSecond: number): Promise<void> {
    const { address, idle } = this.#plan;
    this.#isGathered = true;
    this.#idle = await openPeers(idle, async () => {
      const peer = new RawPeer(address, new Counts());
      await peer.upgraded;
      return peer;
    });
    if (perSecond > 0) this.#producing = this.#produce(perSecond);
  }

  async disperse(): Promise<void> {
    this.#isGathered = false;
    await this.#producing;
    this.#cutBefore = this.cut;
    for (const peer of this.#idle) peer.destroy();
    this.#idle = [];
  }

  async #produce(perSecond: number): Promise<void> {
    // The mask is zero, as that of the broker's crowd.
    const options = { perMessageDeflate: false, generateMask: (mask: Buffer) => void mask.fill(0) };
    const socket = new WebSocket(`ws://${this.#plan.address}`, options);
    await once(socket, "open");
    const body = batch(createRng(1), { records: 8, valueBytes: this.#plan.batchBytes / 8, isWhole: true });
    let answered = 0;
    socket.on("message", () => {
      answered++;
      this.produced++;
    });
    let sent = 0;
    const startMs = performance.now();
    while (this.#isGathered) {
      // At least a millisecond: one that is late does not send all it missed in one turn of its loop.
      await sleep(startMs + (sent * 1000) / perSecond - performance.now());
      socket.send(body);
      sent++;
    }
    while (answered < sent) await sleep(5);
    socket.terminate();
  }
}

answerCrowd(new BareCrowd(JSON.parse(process.argv[2] ?? "{}") as BareCrowdPlan));
