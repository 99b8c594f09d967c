// Three real processes by `cluster up`, the controller killed with SIGKILL while a client of its own process creates topics. OTTLA_KILLS
// sets how often; `npm run controller-kills` does it 30 times.
import { beforeAll, describe, expect, it } from "vitest";
import { killControllers, LIMITS } from "../../scripts/cluster/controller-kills.ts";
import { ensureBuilt } from "../cli/support.ts";

const KILLS = Number(process.env["OTTLA_KILLS"] ?? 3);
const TIMEOUT_MS = 60_000 + KILLS * 30_000;

beforeAll(ensureBuilt);

describe("a controller killed under topic creations", () => {
  it(`costs nothing that was acknowledged and at most 3 s, ${KILLS} times`, { timeout: TIMEOUT_MS }, async () => {
    const lines: string[] = [];
    const report = await killControllers(KILLS, (line) => lines.push(line)).catch((error: unknown) => {
      throw new Error(lines.join("\n"), { cause: error });
    });
    console.log(JSON.stringify(report));
    expect(report.faults, lines.join("\n")).toEqual([]);
    expect(report.gaps.length).toBe(KILLS);
    expect(report.gapMaxMs).toBeLessThanOrEqual(LIMITS.gapMs);
    expect(report.acknowledged).toBeGreaterThan(KILLS * 40);
    // The kills met creations under way, and some were told no.
    expect(Math.min(...report.gaps.map(({ gapMs }) => gapMs))).toBeGreaterThan(20);
    expect(report.refused + report.unknown).toBeGreaterThan(0);
    // The time to three healthy nodes is told, and judged by the command: here other tests run at the same time.
    expect(report.healthyMs).toBeLessThan(60_000);
  });
});
