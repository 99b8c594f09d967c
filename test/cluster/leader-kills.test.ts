// Three real processes by `cluster up`, one after another killed with SIGKILL while records are sent with acks=all to partitions of three replicas.
// OTTLA_KILLS sets how often; `npm run leader-kills` does it 30 times.
import { beforeAll, describe, expect, it } from "vitest";
import { isQuick, killLeaders, LEADER_LIMITS } from "../../scripts/cluster/leader-kills.ts";
import { ensureBuilt } from "../cli/support.ts";

const KILLS = Number(process.env["OTTLA_KILLS"] ?? 2);
const TIMEOUT_MS = 60_000 + KILLS * 30_000;

beforeAll(ensureBuilt);

describe("nodes killed under load", () => {
  it(`lose nothing that was acknowledged, and first replicas lead again, ${KILLS} times`, {
    timeout: TIMEOUT_MS,
  }, async () => {
    const lines: string[] = [];
    const report = await killLeaders(KILLS, (line) => lines.push(line)).catch((error: unknown) => {
      throw new Error(lines.join("\n"), { cause: error });
    });
    console.log(JSON.stringify(report));
    expect(report.faults, lines.join("\n")).toEqual([]);
    expect(report.gaps.length).toBe(KILLS);
    expect(report.acknowledged).toBeGreaterThan(KILLS * 400);
    // Each kill met partitions that were led there.
    expect(Math.min(...report.gaps.map(({ gapMs }) => gapMs))).toBeGreaterThan(20);
    expect(report.preferredMaxMs).toBeLessThan(LEADER_LIMITS.preferredMs);
    expect(isQuick(report), lines.join("\n")).toBe(true);
  });
});
