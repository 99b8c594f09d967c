// `npm run fuzz -- [--seconds 10] [--rounds N] [--seed S]`: damages valid inputs and feeds them to every decoder. A finding prints its
// target, its bytes in base64 and the seed that makes it again; the exit code is 1.
import { createRng, type Rng } from "../src/base/rng.ts";
import { OttlaError } from "../src/model/errors.ts";
import { flagsOf } from "./flags.ts";
import { directoryTargets, metadataTargets } from "./fuzz-directories.ts";
import { fileTargets } from "./fuzz-files.ts";
import { filesOf, METADATA_ROOT, sampleDirectories, sampleMetadata } from "./fuzz-samples.ts";
import { type FuzzTarget, fuzzTargets } from "./fuzz-targets.ts";
import { createSimHost } from "./sim-host.ts";

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
export async function fuzzTarget(
  target: FuzzTarget,
  options: { rounds: number; rng: Rng },
): Promise<Finding | FuzzCounts> {
  const { rounds, rng } = options;
  let accepted = 0;
  for (let round = 0; round < rounds; round++) {
    const bytes = damage(target.samples, rng);
    const isRepaired = target.repair !== undefined && rng.chance(target.isFile === true ? 0.3 : 0.7);
    if (isRepaired) target.repair?.(bytes);
    const begun = process.cpuUsage();
    const outcome = await feed(target, bytes, isRepaired);
    const { user, system } = process.cpuUsage(begun);
    const tookMs = (user + system) / 1_000;
    if (outcome === "accepted") accepted += 1;
    else if (outcome !== "refused") return { target: target.name, fault: outcome.fault, bytes };
    if (tookMs > SLOW_MS) return { target: target.name, fault: `took ${tookMs.toFixed(0)} ms`, bytes };
  }
  return { fed: rounds, accepted, refused: rounds - accepted };
}

async function feed(
  target: FuzzTarget,
  bytes: Uint8Array,
  isRepaired: boolean,
): Promise<"accepted" | "refused" | { fault: string }> {
  try {
    const fault = await target.feed(bytes, isRepaired);
    return fault === undefined ? "accepted" : { fault };
  } catch (thrown) {
    if (thrown instanceof OttlaError) return "refused";
    return { fault: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) };
  }
}

/** Whole directories take milliseconds each: one for so many files of one format. */
const FILES_PER_DIRECTORY = 100;

async function main(): Promise<void> {
  const values = flagsOf("npm run fuzz -- [--seconds N | --rounds N | --files N] [--seed N]", {
    seconds: { type: "string", default: "10" },
    rounds: { type: "string" },
    /** Damaged files in all, shared among the formats; a hundredth as many whole directories with one of them. */
    files: { type: "string" },
    seed: { type: "string" },
  });
  const seed = Number(values.seed ?? Date.now() % 2 ** 32);
  const rng = createRng(seed);
  console.error(`fuzz: seed ${seed}`);
  const all = [...(await fuzzTargets(rng)), ...(await diskTargets(seed))];
  const finding =
    values.files === undefined
      ? await fuzzForSeconds(all, { rng, rounds: values.rounds, seconds: Number(values.seconds) })
      : await fuzzFiles(all, { rng, files: Number(values.files) });
  if (finding === undefined) console.error("fuzz: no finding");
  else report(finding, seed);
}

/** Targets of all file formats, and of whole directories. */
export async function diskTargets(seed: number): Promise<FuzzTarget[]> {
  const options = { seed, host: await createSimHost() };
  const points = await sampleDirectories(options);
  const metadata = await sampleMetadata(options);
  const inMetadata = filesOf(metadata, METADATA_ROOT).map((file) => ({ ...file, path: `metadata/${file.path}` }));
  const files = [...points.flatMap(({ image }) => filesOf(image)), ...inMetadata];
  const formats = await fileTargets(files, options.host.checksum);
  return [...formats, ...directoryTargets(points, options), ...(await metadataTargets(metadata, options))];
}

type Totals = Map<string, { fed: number; accepted: number }>;

async function fuzzForSeconds(
  targets: readonly FuzzTarget[],
  options: { readonly rng: Rng; readonly rounds: string | undefined; readonly seconds: number },
): Promise<Finding | undefined> {
  const untilMs = performance.now() + options.seconds * 1000;
  const rounds = options.rounds === undefined ? 1000 : Number(options.rounds);
  const totals: Totals = new Map();
  do {
    for (const target of targets) {
      const share = target.isDirectory === true ? Math.ceil(rounds / FILES_PER_DIRECTORY) : rounds;
      const finding = await feedCounted(target, totals, { rng: options.rng, rounds: share });
      if (finding !== undefined) return finding;
    }
  } while (options.rounds === undefined && performance.now() < untilMs);
  print(totals);
  return undefined;
}

/** So many damaged files at least; feeding fewer is a finding, too. */
export async function fuzzFiles(
  targets: readonly FuzzTarget[],
  { rng, files }: { readonly rng: Rng; readonly files: number },
): Promise<Finding | undefined> {
  const totals: Totals = new Map();
  const formats = targets.filter(({ isFile }) => isFile === true);
  const directories = targets.filter(({ isDirectory }) => isDirectory === true);
  const shares = [
    ...formats.map((target) => ({ target, rounds: Math.ceil(files / formats.length) })),
    ...directories.map((target) => ({
      target,
      rounds: Math.ceil(files / FILES_PER_DIRECTORY / directories.length),
    })),
  ];
  for (const { target, rounds } of shares) {
    const finding = await feedCounted(target, totals, { rng, rounds });
    if (finding !== undefined) return finding;
  }
  print(totals);
  const fed = formats.reduce((sum, { name }) => sum + (totals.get(name)?.fed ?? 0), 0);
  console.log(`${fed} damaged files of ${formats.length} formats`);
  if (fed >= files && directories.length > 0) return undefined;
  return { target: "files", fault: `only ${fed} damaged files were fed`, bytes: new Uint8Array(0) };
}

async function feedCounted(
  target: FuzzTarget,
  totals: Totals,
  options: { readonly rng: Rng; readonly rounds: number },
): Promise<Finding | undefined> {
  const result = await fuzzTarget(target, options);
  if ("fault" in result) return result;
  const { fed = 0, accepted = 0 } = totals.get(target.name) ?? {};
  totals.set(target.name, { fed: fed + result.fed, accepted: accepted + result.accepted });
  return undefined;
}

function print(totals: Totals): void {
  for (const [name, { fed, accepted }] of totals) console.log(`${name}\t${fed} fed\t${accepted} accepted`);
}

function report({ target, fault, bytes }: Finding, seed: number): void {
  console.log(`${target}\t${Buffer.from(bytes).toString("base64")}`);
  console.error(`fuzz: ${target}: ${fault}\nfuzz: again with: npm run fuzz -- --seed ${seed}`);
  process.exitCode = 1;
}

if (import.meta.filename === process.argv[1]) await main();
