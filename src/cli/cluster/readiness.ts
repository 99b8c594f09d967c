// Asks a node by plain HTTP whether it serves: needs nothing of the native protocol.
import { get } from "node:http";
import type { Readiness } from "./observation.ts";

const HTTP_BYTES_MAX = 64 * 1024;

/** Undefined: no answer, or not one of ours. */
export function askReadiness(address: string, timeoutMs: number): Promise<Readiness | undefined> {
  return new Promise((resolve) => {
    const request = get(`http://${address}/readyz`, { timeout: timeoutMs, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        if (text.length > HTTP_BYTES_MAX) response.destroy();
      });
      response.on("close", () => resolve(readinessOf(text)));
    });
    const limit = setTimeout(() => request.destroy(), timeoutMs);
    request.on("close", () => clearTimeout(limit));
    request.on("error", () => resolve(undefined));
  });
}

function readinessOf(text: string): Readiness | undefined {
  try {
    const { ready, checks } = JSON.parse(text) as Partial<Readiness>;
    return typeof ready === "boolean" ? { ready, checks: checks ?? {} } : undefined;
  } catch {
    return undefined;
  }
}

/** What a node that starts says that it waits for. Opening its files is work, not waiting. */
export function waitOf(readiness: Readiness | undefined): string | undefined {
  const isWait = (check: string) => check.startsWith("waiting") && !check.includes("data directory");
  return Object.values(readiness?.checks ?? {}).find(isWait);
}
