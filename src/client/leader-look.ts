// While a broker lets wait for its answer another one may have taken its place: looks for the leaders again and again until it answers. One look
// at a time for each broker, each of one question for all its topics, and never asked of the broker that is silent.
import type { Alarm } from "../link/alarms.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";

export interface Watched {
  readonly link: BrokerLink;
  /** Since when it owes something: an answer, or a connection. undefined: it owes nothing. */
  owesSinceMs(): number | undefined;
  /** Whose leaders to look for. */
  topics(): Iterable<string>;
  /** Metadata was read just now. */
  onLooked(silentMs: number): void;
}

/** A broker that is well answers sooner, as a rule; one that is busy costs a question of metadata. */
export const FIRST_LOOK_MS = 1_000;
/** Between looks while another leader is about to be elected (broker.session.timeout.ms and an election of a controller). */
const NEXT_LOOK_MS = 400;
const SOON_MS = 10_000;
/** After that. */
const LATER_LOOK_MS = 2_000;

export class LeaderLook {
  readonly #context: ClientContext;
  readonly #watched: Watched;
  #alarm: Alarm | undefined;
  /** Not one word of it since then; undefined: what it owes tells. */
  #silentSinceMs: number | undefined;
  #isLooking = false;
  #isClosed = false;

  constructor(context: ClientContext, watched: Watched) {
    this.#context = context;
    this.#watched = watched;
  }

  /** Something was asked of the broker. */
  asked(): void {
    const isSilent = this.#silentSinceMs !== undefined;
    if (this.#alarm === undefined && !this.#isLooking) this.#arm(isSilent ? NEXT_LOOK_MS : FIRST_LOOK_MS);
  }

  /** A request to it has failed without a word of it: looks now, and goes on with what is asked of it next. */
  lost(): void {
    this.#silentSinceMs ??= this.#context.alarms.nowMs() - FIRST_LOOK_MS;
    if (this.#isLooking || this.#isClosed) return;
    this.#alarm?.cancel();
    void this.#look(FIRST_LOOK_MS);
  }

  /** No connection to it came about. */
  unreachable(sinceMs: number): void {
    this.#silentSinceMs ??= sinceMs;
  }

  /** It is there. */
  heard(): void {
    this.#silentSinceMs = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#alarm?.cancel();
  }

  #arm(delayMs: number): void {
    if (this.#isClosed) return;
    this.#alarm = this.#context.alarms.after(delayMs, () => this.#wake());
  }

  #wake(): void {
    this.#alarm = undefined;
    const owesSinceMs = this.#watched.owesSinceMs();
    if (owesSinceMs === undefined || this.#isClosed) return;
    const silentMs = this.#context.alarms.nowMs() - Math.min(owesSinceMs, this.#silentSinceMs ?? owesSinceMs);
    if (silentMs < FIRST_LOOK_MS) this.#arm(FIRST_LOOK_MS - silentMs);
    else void this.#look(silentMs);
  }

  async #look(silentMs: number): Promise<void> {
    const { metadata, pool } = this.#context;
    const { link } = this.#watched;
    this.#alarm = undefined;
    this.#isLooking = true;
    // It is the last to know who has replaced it.
    pool.shunLink(link);
    const topics = [...new Set(this.#watched.topics())];
    await Promise.allSettled(topics.map((topic) => metadata.refresh(topic)));
    this.#isLooking = false;
    if (this.#isClosed) return;
    this.#watched.onLooked(silentMs);
    if (this.#watched.owesSinceMs() !== undefined) this.#arm(silentMs < SOON_MS ? NEXT_LOOK_MS : LATER_LOOK_MS);
  }
}
