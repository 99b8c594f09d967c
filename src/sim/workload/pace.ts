// No loop without a pause between its turns (44): how many connections one client dials in a second, and how many requests it makes that carry no
// records. One that is refused and asks again at once makes as many as the network lets it.
import type { MessageTransport } from "../../ports/transport.ts";
import { API } from "../../wire/native/apis.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimWorld } from "../world.ts";

const WINDOW_MS = 1000;
/** All of one client's loops together. */
const DIALS_MAX = 60;
const QUESTIONS_MAX = 120;

const REQUEST = 0x96; // an array of 6
const CARRIERS: ReadonlySet<number> = new Set([API.PRODUCE, API.FETCH]);

class Pace {
  readonly #what: string;
  readonly #most: number;
  readonly #timesMs: number[] = [];

  constructor(what: string, most: number) {
    this.#what = what;
    this.#most = most;
  }

  /** In words: too many. */
  step(nowMs: number): string | undefined {
    const times = this.#timesMs;
    times.push(nowMs);
    if (times.length <= this.#most) return undefined;
    const first = times.shift() ?? nowMs;
    return nowMs - first < WINDOW_MS ? `${this.#most} ${this.#what} in ${Math.ceil(nowMs - first)} ms` : undefined;
  }
}

/** The same transport, watched. `name`: the client process. */
export function paced(
  transport: MessageTransport,
  { name, world, record }: { readonly name: string; readonly world: SimWorld; record(event: HistoryEvent): void },
): MessageTransport {
  const dials = new Pace("connections were dialled", DIALS_MAX);
  const questions = new Pace("questions were asked", QUESTIONS_MAX);
  let isTold = false;
  const judge = (message: string | undefined): void => {
    if (message === undefined || isTold) return;
    isTold = true;
    record({ type: "verdict", timeMs: world.nowMs, process: name, invariant: 44, message });
  };
  return {
    listen: (address, onConnection) => transport.listen(address, onConnection),
    connect: async (address) => {
      judge(dials.step(world.nowMs));
      const connection = await transport.connect(address);
      const send = connection.send.bind(connection);
      connection.send = (outgoing) => {
        const [envelope] = outgoing;
        if (envelope?.[0] === REQUEST && !CARRIERS.has(envelope[1] ?? 0)) judge(questions.step(world.nowMs));
        send(outgoing);
      };
      return connection;
    },
  };
}
