// Every crash of a storage trace: `npm run enumerate-crashes -- [--seed N] [--operations N] [--images N] [--subsets N]`.
// Exits with 1 when a crash loses what was promised.
import { activateMutants } from "../src/base/mutant.ts";
import { enumerateCrashes, UNDER_WAY } from "../src/sim/crash-enumerator.ts";
import { recordStorageTrace } from "../src/sim/storage-trace.ts";
import { flagsOf } from "./flags.ts";
import { createSimHost, ENUMERATOR_CONFIG } from "./sim-host.ts";

const values = flagsOf(
  "npm run enumerate-crashes -- [--seed N] [--operations N] [--images N] [--subsets N] [--mutant ID] [--least N] [--only WORK] [--crashes N]",
  {
    seed: { type: "string", default: "1" },
    operations: { type: "string", default: "2000" },
    images: { type: "string", default: "1000000" },
    subsets: { type: "string", default: "16" },
    mutant: { type: "string" },
    /** Of each prefix only so many. */
    crashes: { type: "string" },
    /** Crashes that come into this alone: retention, compaction, truncation, deletion, checkpoint. */
    only: { type: "string" },
    /** Distinct images that the run must reach to prove anything. */
    least: { type: "string", default: "40000" },
  },
);

/** Of the distinct disks, for each thing that a crash has to come into. */
const SHARE_MIN = 0.005;

const only = UNDER_WAY.find((each) => each === values.only);
if (values.only !== undefined && only === undefined) throw new Error(`--only takes one of ${UNDER_WAY.join(", ")}`);
const host = await createSimHost();
if (values.mutant !== undefined) activateMutants([values.mutant]);
const seed = Number(values.seed);
const startMs = host.realMs();
const options = { seed, host, codecs: host.codecs, config: ENUMERATOR_CONFIG };
const trace = await recordStorageTrace({ ...options, operations: Number(values.operations) });
process.stderr.write(`trace of ${trace.length} operations recorded in ${Math.round(host.realMs() - startMs)} ms\n`);
const result = await enumerateCrashes(trace, {
  ...options,
  imagesMax: Number(values.images),
  subsets: Number(values.subsets),
  only,
  ...(values.crashes === undefined ? {} : { crashesPerPrefix: Number(values.crashes) }),
  onProgress: ({ prefixes, crashes, distinct }) => {
    const seconds = (host.realMs() - startMs) / 1000;
    process.stderr.write(
      `\r${prefixes} of ${trace.length} prefixes, ${crashes} crashes, ${distinct} distinct disks, ${seconds.toFixed(0)} s `,
    );
  },
});
const seconds = (host.realMs() - startMs) / 1000;
process.stderr.write("\n");
console.log(
  `${result.prefixes} prefixes, ${result.crashes} crashes, ${result.distinct} distinct disks (${result.doubleCrashes} crashed again in recovery), ` +
    `${result.failures.length} failures, ${seconds.toFixed(1)} s, ${((seconds * 1000) / Math.max(1, result.distinct)).toFixed(2)} ms a disk`,
);
for (const failure of result.failures) console.log(`seed ${seed}: ${failure}`);
console.log(`while under way: ${UNDER_WAY.map((each) => `${each} ${result.during[each]}`).join(", ")}`);
const isEnough = result.distinct >= Math.min(Number(values.least), Number(values.images));
if (!isEnough) console.log(`only ${result.distinct} distinct disks: too few to prove anything`);
const unseen = UNDER_WAY.filter((each) => only === undefined || each === only).filter(
  (each) => result.during[each] < Math.min(Number(values.images), result.distinct) * SHARE_MIN,
);
if (unseen.length > 0) console.log(`too few crashes came into: ${unseen.join(", ")}`);
process.exitCode = result.failures.length === 0 && isEnough && unseen.length === 0 ? 0 : 1;
