// What the parts of one client share.
import type { Rng } from "../base/rng.ts";
import type { Checksum } from "../ports/checksum.ts";
import type { Clock } from "../ports/clock.ts";
import type { Codecs } from "../ports/codecs.ts";
import type { Logger } from "../ports/logger.ts";
import type { Timers } from "../ports/timers.ts";
import type { MessageTransport } from "../ports/transport.ts";
import type { Alarms } from "../link/alarms.ts";
import type { BrokerPool } from "./broker-pool.ts";
import type { MetadataCache } from "./metadata-cache.ts";

/** The doors to the world that a client needs. */
export interface ClientDeps {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly transport: MessageTransport;
  readonly checksum: Checksum;
  readonly codecs: Codecs;
  readonly logger: Logger;
  readonly rng: Rng;
}

export interface ClientContext extends ClientDeps {
  readonly alarms: Alarms;
  readonly pool: BrokerPool;
  readonly metadata: MetadataCache;
}
