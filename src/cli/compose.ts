// The composition root of a broker in the real world: every port gets its platform adapter, HTTP gets its answers.
import { type Broker, createBroker } from "../broker/broker.ts";
import type { BrokerConfig } from "../model/config.ts";
import { createChecksum } from "../platform/checksum.ts";
import { createClock } from "../platform/clock.ts";
import { loadCodecs } from "../platform/codecs.ts";
import { createEntropy } from "../platform/entropy.ts";
import { createFiles } from "../platform/files.ts";
import { readBootId } from "../platform/host.ts";
import { createMetrics, type RenderedMetrics } from "../platform/metrics.ts";
import { createTimers } from "../platform/timers.ts";
import { createWebSocketTransport, isBufferutilLoaded } from "../platform/websocket.ts";
import type { Logger } from "../ports/logger.ts";
import { rngFromSystem } from "./rng.ts";
import { VERSION } from "./version.ts";

export interface ComposedNode {
  readonly broker: Broker;
  readonly metrics: RenderedMetrics;
}

/** A broker that is not started yet. */
export async function composeNode(config: BrokerConfig, logger: Logger): Promise<ComposedNode> {
  const metrics = createMetrics();
  metrics
    .gauge("build_info", "Always 1; the labels say what runs.", { version: VERSION, node: process.version })
    .set(1);
  const entropy = createEntropy();
  if (!isBufferutilLoaded()) logger.warn("bufferutil_missing", { effect: "masked messages cost five times as much" });
  const dropped = metrics.counter(
    "connections_refused_total",
    "Connections that were refused or spoke no known protocol.",
  );
  const transport = createWebSocketTransport({
    connectionsMax: config["connections.max"],
    unsentBytesMax: config["connection.unsent.bytes"],
    onDropped: (remote, reason) => {
      dropped.add(1);
      logger.debug("connection_refused", { remote, reason });
    },
    httpHandler: (path) => answerHttp(path, { health: () => broker.health(), metrics }),
  });
  const broker = createBroker(
    {
      clock: createClock(),
      timers: createTimers(),
      files: createFiles(),
      transport,
      checksum: createChecksum(),
      // A broker checks and moves batches; it never compresses or decompresses one.
      codecs: await loadCodecs([]),
      entropy,
      logger,
      metrics,
      rng: rngFromSystem(entropy),
      bootId: readBootId(),
    },
    config,
  );
  return { broker, metrics };
}

export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export interface HttpSources {
  health(): ReturnType<Broker["health"]>;
  readonly metrics: RenderedMetrics;
}

const json = (status: number, value: unknown): HttpAnswer => ({
  status,
  contentType: "application/json",
  body: `${JSON.stringify(value)}\n`,
});

/** What the node's port says to plain HTTP; undefined for a path that does not exist. */
export function answerHttp(path: string, sources: HttpSources): HttpAnswer | Promise<HttpAnswer> | undefined {
  switch (path.split("?")[0]) {
    case "/livez": {
      const { live, checks } = sources.health();
      return json(live ? 200 : 503, { live, checks });
    }
    case "/readyz": {
      const { ready, checks } = sources.health();
      return json(ready ? 200 : 503, { ready, checks });
    }
    case "/metrics":
      return sources.metrics.render().then((body) => ({ status: 200, contentType: sources.metrics.contentType, body }));
    case "/version":
      return json(200, { name: "ottla", version: VERSION, node: process.version });
    default:
      return undefined;
  }
}
