// What a node's port answers to plain HTTP, and a seed that is never the same.
import { describe, expect, it } from "vitest";
import { answerHttp, type HttpSources } from "../../src/cli/http.ts";
import { rngFromSystem } from "../../src/cli/rng.ts";
import { createEntropy } from "../../src/platform/entropy.ts";
import { createMetrics } from "../../src/platform/metrics.ts";

const metrics = createMetrics({ processMetrics: false });
metrics.gauge("partitions", "Partitions.").set(3);

function sources(live: boolean, ready: boolean): HttpSources {
  const checks = { state: ready ? "running" : "starting", disk: "ok" };
  return { health: () => ({ live, ready, checks }), metrics };
}

const answered = async (path: string, from: HttpSources) => {
  const answer = await answerHttp(path, from);
  return answer === undefined ? undefined : { status: answer.status, body: answer.body };
};

describe("HTTP", () => {
  it("/readyz is 200 when requests are served, else 503 with the checks", async () => {
    expect((await answered("/readyz", sources(true, true)))?.status).toBe(200);
    const starting = await answered("/readyz?verbose", sources(true, false));
    expect(starting?.status).toBe(503);
    expect(JSON.parse(starting?.body ?? "")).toEqual({ ready: false, checks: { state: "starting", disk: "ok" } });
  });

  it("/livez stays 200 while a node starts, and is 503 when only a restart helps", async () => {
    expect((await answered("/livez", sources(true, false)))?.status).toBe(200);
    expect((await answered("/livez", sources(false, false)))?.status).toBe(503);
  });

  it("/metrics is Prometheus text, /version JSON, anything else is not ours", async () => {
    expect((await answered("/metrics", sources(true, true)))?.body).toContain("ottla_partitions 3\n");
    expect(JSON.parse((await answered("/version", sources(true, true)))?.body ?? "")).toMatchObject({ name: "ottla" });
    expect(await answered("/", sources(true, true))).toMatchObject({
      status: 200,
      body: expect.stringMatching(/^Ottla .*\/livez \/readyz \/metrics \/version.*\n$/) as string,
    });
    expect(await answered("/health", sources(true, false))).toEqual(await answered("/readyz", sources(true, false)));
    expect(await answered("/metricsx", sources(true, true))).toBeUndefined();
  });
});

describe("the seed of a real process", () => {
  it("differs from one to the next", () => {
    const draw = () => {
      const rng = rngFromSystem(createEntropy());
      return [rng.u32(), rng.u32()].join();
    };
    expect(new Set([draw(), draw(), draw()]).size).toBe(3);
  });
});
