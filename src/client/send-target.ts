// One broker as the sender sees it: the lanes that have something for it, and the requests that it owes an answer to.
import { Ring } from "../base/ring.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";
import type { Lane } from "./lane.ts";
import { LeaderLook } from "./leader-look.ts";
import type { ProduceBatch } from "./produce-batch.ts";

export const ACKS_IN_TURN = [-1, 1, 0] as const;

export interface Outgoing {
  readonly batches: readonly ProduceBatch[];
  readonly acks: number;
  readonly sentMs: number;
}

export interface Target {
  readonly nodeId: number;
  readonly link: BrokerLink;
  /** Lanes with something to send, by ACKS_IN_TURN. */
  readonly queues: readonly Ring<Lane>[];
  readonly unwatch: () => void;
  /** Requests in flight, the oldest first; bound: `maxInFlight`. */
  readonly inFlight: Set<Outgoing>;
  readonly look: LeaderLook;
  turn: number;
  isPumpDeferred: boolean;
  /** A connection is waited for since then. */
  connectingSinceMs: number | undefined;
  isCongested: boolean;
}

export function newTarget(
  context: ClientContext,
  link: BrokerLink,
  nodeId: number,
  events: { pump(target: Target): void; onLooked(target: Target, silentMs: number): void },
): Target {
  const target: Target = {
    nodeId,
    link,
    queues: ACKS_IN_TURN.map(() => new Ring<Lane>()),
    unwatch: link.watch({ onDrain: () => events.pump(target), onOpen: () => events.pump(target) }),
    inFlight: new Set(),
    look: new LeaderLook(context, {
      link,
      owesSinceMs: () => oldestOf(target)?.sentMs ?? target.connectingSinceMs,
      topics: () => topicsOf(target),
      onLooked: (silentMs) => events.onLooked(target, silentMs),
    }),
    turn: 0,
    isPumpDeferred: false,
    connectingSinceMs: undefined,
    isCongested: false,
  };
  return target;
}

export function queueOf({ queues }: Target, { acks }: Lane): Ring<Lane> {
  return queues[ACKS_IN_TURN.indexOf(acks as -1 | 0 | 1)] as Ring<Lane>;
}

/** Nothing is to be sent there. */
export function isIdle({ queues }: Target): boolean {
  return queues.every((queue) => queue.length === 0);
}

/** Those that have something to send; none is queued there any more. */
export function takeLanes({ queues }: Target): Lane[] {
  const lanes = queues.flatMap((queue) => [...queue]);
  for (const queue of queues) queue.clear();
  for (const lane of lanes) lane.isQueued = false;
  return lanes;
}

const oldestOf = ({ inFlight }: Target): Outgoing | undefined => inFlight.values().next().value;

function topicsOf({ inFlight, queues }: Target): Set<string> {
  const stuck = [...inFlight].flatMap(({ batches }) => batches.map(({ lane }) => lane.topic));
  return new Set([...stuck, ...queues.flatMap((queue) => [...queue].map(({ topic }) => topic))]);
}
