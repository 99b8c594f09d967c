// The layouts of producer-apis.ts.
import { API } from "./apis.ts";
import type { ApiTypes } from "./apis.ts";
import { count64, message, name, nodeId } from "./layout.ts";
import type { ApiSchema } from "./layout.ts";
import type * as apis from "./producer-apis.ts";
import { INT16, INT64, int, nullable, struct } from "./schema.ts";

type ProducerSchemas = { readonly [K in 47 | 48]: ApiSchema<ApiTypes[K]["request"], ApiTypes[K]["response"]> };

/** -1: none. */
const producerId = int({ min: -1, max: INT64.max });
const producerEpoch = int({ min: -1, max: INT16.max });

const initProducerIdRequest = struct<apis.InitProducerIdRequest>({ name: nullable(name), producerId, producerEpoch });
const initProducerIdResponse = struct<apis.InitProducerIdResponse>({ producerId, producerEpoch });
const allocateRequest = struct<apis.AllocateProducerIdsRequest>({ nodeId, brokerEpoch: count64 });
const allocateResponse = struct<apis.AllocateProducerIdsResponse>({ firstId: count64, count: count64 });

export const PRODUCER_SCHEMAS: ProducerSchemas = {
  [API.INIT_PRODUCER_ID]: {
    minVersion: 0,
    versions: [{ request: message(initProducerIdRequest), response: message(initProducerIdResponse) }],
  },
  [API.ALLOCATE_PRODUCER_IDS]: {
    minVersion: 0,
    versions: [{ request: message(allocateRequest), response: message(allocateResponse) }],
  },
};
