// Watches a broker from outside: yes-answers to produce requests that leave it (invariant 42), ids that it gives to producers (24), and its
// budgets (43).
import type { MessageTransport } from "../ports/transport.ts";
import { API, type InitProducerIdResponse, type ProduceResponse } from "../wire/native/apis.ts";
import { ResponseAssembler } from "../wire/native/codec.ts";
import type { HistoryEvent } from "../checkers/history.ts";
import type { SimWorld } from "./world.ts";

const BODY_BYTES_MAX = 1 << 20;

export interface Watch {
  readonly world: SimWorld;
  readonly node: string;
  readonly record: (event: HistoryEvent) => void;
  /** Bound of the answers that one connection may hold; one logical message may come on top (D-24). */
  readonly unsentBytesMax: number;
  /** Answers to produce requests are looked into only while this is true. */
  readonly looksAtAnswers: () => boolean;
  /** A producer is told its id and epoch. */
  readonly onGiven: (answer: InitProducerIdResponse) => void;
}

/** True for an envelope that acknowledges a batch. A body begins with a zero byte (a base offset) and is no envelope. */
function acknowledges(message: Uint8Array): boolean {
  const decoded = new ResponseAssembler({ bodyBytesMax: BODY_BYTES_MAX }).push(message);
  if (decoded.kind !== "message" || decoded.message.header.api !== API.PRODUCE) return false;
  const response = decoded.message.response as ProduceResponse | null;
  return response?.entries.some((entry) => entry.error === "NONE") === true;
}

const ANSWER = 0x98; // an array of 8

/** What an answer to INIT_PRODUCER_ID gives; undefined: it is another one, or a refusal. */
function givenBy(message: Uint8Array): InitProducerIdResponse | undefined {
  if (message[0] !== ANSWER || message[1] !== API.INIT_PRODUCER_ID) return undefined;
  const decoded = new ResponseAssembler({ bodyBytesMax: BODY_BYTES_MAX }).push(message);
  if (decoded.kind !== "message" || decoded.message.header.api !== API.INIT_PRODUCER_ID) return undefined;
  return (decoded.message.response as InitProducerIdResponse | null) ?? undefined;
}

/** The same transport, watched. */
export function watched(transport: MessageTransport, watch: Watch): MessageTransport {
  const { world, node, record } = watch;
  return {
    connect: (address) => transport.connect(address),
    listen: (address, onConnection) =>
      transport.listen(address, (connection) => {
        const send = connection.send.bind(connection);
        connection.send = (outgoing) => {
          if (watch.looksAtAnswers() && outgoing.some(acknowledges))
            record({ type: "acknowledged", timeMs: world.nowMs, node });
          const given = outgoing[0] === undefined ? undefined : givenBy(outgoing[0]);
          if (given !== undefined) watch.onGiven(given);
          send(outgoing);
          const value = connection.unsentBytes;
          const bound = watch.unsentBytesMax + BODY_BYTES_MAX;
          if (value > watch.unsentBytesMax)
            record({ type: "budget", timeMs: world.nowMs, node, budget: "unsent bytes of a connection", value, bound });
        };
        onConnection(connection);
      }),
  };
}
