// Power loss through the preload shim against the simulator's disk: the same steps by a real process that is killed at random
// moments, some lives on one journal, and the same choices. What was synced is exactly there, the rest kept, dropped or torn.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { createRng, type Rng } from "../../../src/base/rng.ts";
import { FAULT_SLOTS, type ShimControl } from "../../../src/chaos/shim/control.ts";
import { losePower, type PowerLoss } from "../../../src/chaos/shim/power-loss.ts";
import { prepareShim } from "../../../src/chaos/shim/setup.ts";
import { type CrashChoices, DiskImage } from "../../../src/sim/disk-image.ts";
import { canPreload } from "./can-preload.ts";
import { applyStep, drawFates, drawSteps, type Fates, fingerprintOf, fingerprintOfImage } from "./shim-model.ts";
import { bytesOf, type Script, type Step } from "./steps.ts";

const WRITER = join(import.meta.dirname, "writer.mjs");
const SEEDS = Number(process.env["SHIM_SEEDS"] ?? 3);
const FIRST_SEED = Number(process.env["SHIM_FIRST_SEED"] ?? 1);
const STEPS = 400;
const PAGE_BYTES = 4096;

interface Stage {
  readonly directory: string;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly control: ShimControl;
  readonly rng: Rng;
  readonly fates: Fates;
  /** All that the disk may be: a step in which the process was killed was made or not. */
  candidates: Candidate[];
}

interface Candidate {
  readonly image: DiskImage;
  /** Names, by their number, that a power loss leaves: made when the process was killed, before the shim had written them down. */
  readonly left: ReadonlySet<number>;
}

async function openStage(seed: number): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), "ottla-shim-test-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const dataDir = join(directory, "data");
  mkdirSync(dataDir);
  const { env, control } = (await prepareShim(directory)).nodeFor(1, dataDir);
  onTestFinished(() => control.close());
  const rng = createRng(seed);
  return {
    directory,
    dataDir,
    env,
    control,
    rng,
    fates: drawFates(rng),
    candidates: [{ image: new DiskImage(), left: new Set() }],
  };
}

/** Runs steps in a process and kills it; what may be afterwards are the candidates. */
async function live(stage: Stage): Promise<void> {
  const { directory, dataDir, rng, env } = stage;
  const [first] = stage.candidates;
  if (first === undefined) throw new Error("no candidate");
  const steps = drawSteps(rng, first.image, STEPS);
  const progressFile = join(directory, "progress");
  writeFileSync(progressFile, "");
  const controlFile = env["PRELOAD_SHIM_CONTROL"] ?? "";
  const failSyncsAt = FAULT_SLOTS.failSyncs * 8;
  const script: Script = { root: dataDir, progressFile, controlFile, failSyncsAt, steps };
  const scriptFile = join(directory, "steps.script.json");
  writeFileSync(scriptFile, JSON.stringify(script));
  const child = spawn(process.execPath, [WRITER, scriptFile], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = once(child, "exit");
  const killAt = rng.between(STEPS / 4, STEPS * 2 - 1);
  while (statSync(progressFile).size < killAt && child.exitCode === null) await sleep(1);
  child.kill("SIGKILL");
  await ended;
  if (child.exitCode !== null) throw new Error(`the writer ended by itself with ${child.exitCode}`);
  const progress = readFileSync(progressFile).length;
  stage.candidates = candidatesAfter(stage, steps, progress);
}

function candidatesAfter({ candidates, fates, dataDir }: Stage, steps: readonly Step[], progress: number): Candidate[] {
  const done = progress >> 1;
  const underWay = progress % 2 === 1 ? steps[done] : undefined;
  const after = candidates.flatMap((candidate) => {
    const image = candidate.image.clone();
    for (const step of steps.slice(0, done)) applyStep(image, step, fates.ofModel);
    image.closeAll();
    const { left } = candidate;
    if (underWay === undefined) return [{ image, left }];
    const made = withPartOf(image, underWay, fates.ofModel).map((each) => ({ image: each, left }));
    if (underWay.kind !== "create" && underWay.kind !== "makeDirectory") return [{ image, left }, ...made];
    const stays = new Set([...left, image.sequence]);
    const [unseen] = withPartOf(image, underWay, fates.ofModel);
    return [{ image, left }, ...made, ...(unseen === undefined ? [] : [{ image: unseen, left: stays }])];
  });
  const seen = fingerprintOf(dataDir);
  return after.filter(({ image }) => fingerprintOfImage(image) === seen);
}

/** A write that was killed may be there up to a page boundary. */
function withPartOf(image: DiskImage, step: Step, choices: CrashChoices): DiskImage[] {
  const parts: (number | undefined)[] = [undefined];
  if (step.kind === "write")
    for (let at = PAGE_BYTES - (step.position % PAGE_BYTES); at < bytesOf(step).length; at += PAGE_BYTES)
      parts.push(at);
  return parts.map((doneBytes) => {
    const made = image.clone();
    applyStep(made, step, choices, doneBytes);
    return made;
  });
}

/** What the model's disk is after it lost power. */
function crashed({ image, left }: Candidate, choices: CrashChoices): Candidate {
  image.crash({
    ...choices,
    ofDirectory: (operation) => left.has(operation.sequence) || choices.ofDirectory(operation),
  });
  return { image, left: new Set() };
}

function lose(stage: Stage): PowerLoss {
  const { dataDir, directory, fates } = stage;
  const { undoLost, unsupported } = stage.control.counters();
  expect({ undoLost, unsupported }).toEqual({ undoLost: 0, unsupported: 0 });
  return losePower({ dataDir, undoDir: join(directory, "shim-1", "undo") }, fates.ofShim);
}

describe.runIf(canPreload)("power loss", () => {
  const seeds = Array.from({ length: SEEDS }, (_, index) => FIRST_SEED + index);
  test.each(seeds)("leaves what the simulator's disk leaves (seed %i)", async (seed) => {
    const stage = await openStage(seed);
    for (let loss = 0; loss < 2; loss++) {
      const lives = 1 + stage.rng.below(3);
      for (let life = 0; life < lives; life++) {
        await live(stage);
        expect(stage.candidates.length, "killed, the disk shows what was done").toBeGreaterThan(0);
      }
      const report = lose(stage);
      expect(report.problems).toEqual([]);
      expect(report.pending, "a loss that loses nothing tests nothing").toBeGreaterThan(0);
      stage.candidates = stage.candidates.map((candidate) => crashed(candidate, stage.fates.ofModel));
      const seen = fingerprintOf(stage.dataDir);
      const expected = stage.candidates.map(({ image }) => fingerprintOfImage(image));
      expect(expected.includes(seen) ? seen : expected[0]).toEqual(seen);
      stage.candidates = stage.candidates.filter(({ image }) => fingerprintOfImage(image) === seen);
    }
  });
});
