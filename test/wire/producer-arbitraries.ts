// Random messages about producer ids.
import fc from "fast-check";
import { API } from "../../src/wire/native/apis.ts";
import type { Arbitraries } from "./arbitraries.ts";
import { bare, count64, maybe, nodeId, text } from "./random-values.ts";

const producerId = fc.oneof(count64, fc.constant(-1));
const producerEpoch = fc.integer({ min: -1, max: 0x7fff });

export const PRODUCER_ARBITRARIES: Pick<Arbitraries, 47 | 48> = {
  [API.INIT_PRODUCER_ID]: {
    request: bare(fc.record({ name: maybe(text), producerId, producerEpoch })),
    response: bare(fc.record({ producerId, producerEpoch })),
  },
  [API.ALLOCATE_PRODUCER_IDS]: {
    request: bare(fc.record({ nodeId, brokerEpoch: count64 })),
    response: bare(fc.record({ firstId: count64, count: count64 })),
  },
};
