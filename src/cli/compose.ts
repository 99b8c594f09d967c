// The composition root of a broker in the real world: every port gets its platform adapter, HTTP gets its answers.
import { type Broker, type BrokerDeps, createBroker } from "../broker/broker.ts";
import type { BrokerConfig } from "../model/config.ts";
import { createChecksum } from "../platform/checksum.ts";
import { createClock } from "../platform/clock.ts";
import { loadCodecs } from "../platform/codecs.ts";
import { createEntropy } from "../platform/entropy.ts";
import { openFilesLimit } from "../platform/file-watch.ts";
import { createFiles } from "../platform/files.ts";
import { readBootId } from "../platform/host.ts";
import { createMetrics, type RenderedMetrics } from "../platform/metrics.ts";
import { createTimers } from "../platform/timers.ts";
import { createWebSocketTransport, isBufferutilLoaded, type WebSocketTransportOptions } from "../platform/websocket.ts";
import type { Files } from "../ports/files.ts";
import type { Logger } from "../ports/logger.ts";
import type { Timers } from "../ports/timers.ts";
import type { MessageTransport } from "../ports/transport.ts";
import { answerHttp } from "./http.ts";
import { rngFromSystem } from "./rng.ts";
import { VERSION } from "./version.ts";

export interface ComposedNode {
  readonly broker: Broker;
  readonly metrics: RenderedMetrics;
}

/** Instead of the platform's own, for a node that shares its process with others. */
export interface NodePorts {
  readonly timers: Timers;
  readonly files: Files;
  createTransport(options: WebSocketTransportOptions): MessageTransport;
  readonly raftSettings: NonNullable<BrokerDeps["raftSettings"]>;
}

const FILES_HINT = "raise the limit of open files (ulimit -n), or lower connections.max and open.files.max";

/** A broker that is not started yet. */
export async function composeNode(config: BrokerConfig, logger: Logger, ports?: NodePorts): Promise<ComposedNode> {
  const metrics = createMetrics({ processMetrics: ports === undefined });
  metrics
    .gauge("build_info", "Always 1; the labels say what runs.", { version: VERSION, node: process.version })
    .set(1);
  const entropy = createEntropy();
  if (!isBufferutilLoaded()) logger.warn("bufferutil_missing", { effect: "masked messages cost five times as much" });
  const dropped = metrics.counter(
    "connections_refused_total",
    "Connections that were refused or spoke no known protocol.",
  );
  const filesNeeded = config["connections.max"] + config["open.files.max"];
  const filesLimit = openFilesLimit();
  if (filesLimit !== undefined && filesLimit < filesNeeded)
    logger.warn("files_limit_low", { limit: filesLimit, needed: filesNeeded, hint: FILES_HINT });
  const createTransport = ports?.createTransport ?? createWebSocketTransport;
  const transport = createTransport({
    connectionsMax: config["connections.max"],
    unsentBytesMax: config["connection.unsent.bytes"],
    advertisedAddress: config["advertised.listeners"],
    onFilesShort: (about) => logger.warn("files_short", { about, hint: FILES_HINT }),
    onDropped: (remote, reason) => {
      dropped.add(1);
      logger.debug("connection_refused", { remote, reason });
    },
    httpHandler: (path) => answerHttp(path, { health: () => broker.health(), metrics }),
  });
  const broker = createBroker(
    {
      clock: createClock(),
      timers: ports?.timers ?? createTimers(),
      files: ports?.files ?? createFiles(),
      transport,
      checksum: createChecksum(),
      // A broker moves batches as they are; it opens one only to find a record in it by time.
      codecs: await loadCodecs(),
      entropy,
      logger,
      metrics,
      rng: rngFromSystem(entropy),
      bootId: readBootId(),
      ...(ports === undefined ? {} : { raftSettings: ports.raftSettings }),
    },
    config,
  );
  return { broker, metrics };
}
