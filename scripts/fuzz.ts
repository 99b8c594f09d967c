// `npm run fuzz -- [--seconds 10] [--rounds N] [--seed S]`: damages valid inputs and feeds them to every decoder. A finding prints its
// target, its bytes in base64 and the seed that makes it again; the exit code is 1.
import { createRng, type Rng } from "../src/base/rng.ts";
import { OttlaError } from "../src/model/errors.ts";
import { flagsOf } from "./flags.ts";
import { type FuzzTarget, fuzzTargets } from "./fuzz-targets.ts";

const SLOW_MS = 500;
const MUTATIONS_MAX = 6;

export interface Finding {
  readonly target: string;
  readonly fault: string;
  readonly bytes: Uint8Array;
}

export interface FuzzCounts {
  readonly fed: number;
  readonly accepted: number;
  readonly refused: number;
}

/** A damaged copy of one of the samples. */
export function damage(samples: readonly Uint8Array[], rng: Rng): Uint8Array {
  let bytes: Uint8Array = rng.pick(samples).slice();
  for (let left = 1 + rng.below(MUTATIONS_MAX); left > 0 && bytes.length > 0; left--)
    bytes = damageOnce(bytes, samples, rng);
  return bytes;
}

function damageOnce(bytes: Uint8Array, samples: readonly Uint8Array[], rng: Rng): Uint8Array {
  const at = rng.below(bytes.length);
  switch (rng.below(6)) {
    case 0:
      bytes[at] = (bytes[at] ?? 0) ^ (1 << rng.below(8));
      return bytes;
    case 1:
      bytes[at] = rng.pick([0, 1, 0x7f, 0x80, 0xc1, 0xdc, 0xdd, 0xff]);
      return bytes;
    case 2:
      return bytes.slice(0, at);
    case 3:
      return joined(bytes.subarray(0, at), bytes.subarray(rng.below(bytes.length)));
    case 4: {
      const other = rng.pick(samples);
      return joined(bytes.subarray(0, at), other.subarray(rng.below(other.length)));
    }
    default:
      rng.fill(bytes.subarray(at, Math.min(bytes.length, at + 1 + rng.below(8))));
      return bytes;
  }
}

function joined(left: Uint8Array, right: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(left.length + right.length);
  bytes.set(left);
  bytes.set(right, left.length);
  return bytes;
}

/** Feeds one target `rounds` damaged inputs; stops at the first finding. */
export function fuzzTarget(target: FuzzTarget, options: { rounds: number; rng: Rng }): Finding | FuzzCounts {
  const { rounds, rng } = options;
  let accepted = 0;
  for (let round = 0; round < rounds; round++) {
    const bytes = damage(target.samples, rng);
    if (rng.chance(0.7)) target.repair?.(bytes);
    const startedMs = performance.now();
    const outcome = feed(target, bytes);
    const tookMs = performance.now() - startedMs;
    if (outcome === "accepted") accepted += 1;
    else if (outcome !== "refused") return { target: target.name, fault: outcome.fault, bytes };
    if (tookMs > SLOW_MS) return { target: target.name, fault: `took ${tookMs.toFixed(0)} ms`, bytes };
  }
  return { fed: rounds, accepted, refused: rounds - accepted };
}

function feed(target: FuzzTarget, bytes: Uint8Array): "accepted" | "refused" | { fault: string } {
  try {
    const fault = target.feed(bytes);
    return fault === undefined ? "accepted" : { fault };
  } catch (thrown) {
    if (thrown instanceof OttlaError) return "refused";
    return { fault: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) };
  }
}

async function main(): Promise<void> {
  const values = flagsOf("npm run fuzz -- [--seconds N | --rounds N] [--seed N]", {
    seconds: { type: "string", default: "10" },
    rounds: { type: "string" },
    seed: { type: "string" },
  });
  const seed = Number(values.seed ?? Date.now() % 2 ** 32);
  const rng = createRng(seed);
  const targets = await fuzzTargets(rng);
  const untilMs = performance.now() + Number(values.seconds) * 1000;
  const rounds = values.rounds === undefined ? 1000 : Number(values.rounds);
  console.error(`fuzz: seed ${seed}`);
  const totals = new Map(targets.map(({ name }) => [name, { fed: 0, accepted: 0 }]));
  do {
    for (const target of targets) {
      const result = fuzzTarget(target, { rounds, rng });
      if ("fault" in result) return report(result, seed);
      const { fed = 0, accepted = 0 } = totals.get(target.name) ?? {};
      totals.set(target.name, { fed: fed + result.fed, accepted: accepted + result.accepted });
    }
  } while (values.rounds === undefined && performance.now() < untilMs);
  for (const [name, { fed, accepted }] of totals) console.log(`${name}\t${fed} fed\t${accepted} accepted`);
  console.error("fuzz: no finding");
}

function report({ target, fault, bytes }: Finding, seed: number): void {
  console.log(`${target}\t${Buffer.from(bytes).toString("base64")}`);
  console.error(`fuzz: ${target}: ${fault}\nfuzz: again with: npm run fuzz -- --seed ${seed}`);
  process.exitCode = 1;
}

if (import.meta.filename === process.argv[1]) await main();
