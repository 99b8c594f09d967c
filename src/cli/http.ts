// What a node's port says to plain HTTP.
import type { Broker } from "../broker/types.ts";
import type { RenderedMetrics } from "../platform/metrics.ts";
import type { HttpAnswer } from "../platform/websocket.ts";
import { VERSION } from "./version.ts";

export interface HttpSources {
  health(): ReturnType<Broker["health"]>;
  readonly metrics: RenderedMetrics;
}

const json = (status: number, value: unknown): HttpAnswer => ({
  status,
  contentType: "application/json",
  body: `${JSON.stringify(value)}\n`,
});

/** Undefined for a path that does not exist. */
export function answerHttp(path: string, sources: HttpSources): HttpAnswer | Promise<HttpAnswer> | undefined {
  switch (path.split("?")[0]) {
    case "/livez": {
      const { live, checks } = sources.health();
      return json(live ? 200 : 503, { live, checks });
    }
    case "/":
      return {
        status: 200,
        contentType: "text/plain; charset=utf-8",
        body: `Ottla ${VERSION}: a broker's port. GET /livez /readyz /metrics /version; clients speak WebSocket.\n`,
      };
    case "/health":
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
