// Whether a process has grown over a long run: the last quarter of its samples against the first.
import { median } from "./median.ts";
import type { ProcessSample } from "./result.ts";

export interface Growth {
  readonly process: string;
  readonly what: "memory" | "descriptors";
  readonly early: number;
  readonly late: number;
  readonly isTooMuch: boolean;
}

const SHARE_MAX = 0.2;
/** Beside the share: a small process may grow by so much. */
const FLOOR = { memory: 64 * 1024 * 1024, descriptors: 20 } as const;
/** With fewer samples of a process there is nothing to judge. */
export const SAMPLES_MIN = 8;

/** Nothing of processes with too few samples. */
export function growthOf(samples: readonly ProcessSample[]): Growth[] {
  const names = [...new Set(samples.map(({ process }) => process))];
  return names.flatMap((process) => {
    const own = samples.filter((sample) => sample.process === process);
    if (own.length < SAMPLES_MIN) return [];
    return [
      judge(
        process,
        "memory",
        own.map(({ rssBytes }) => rssBytes),
      ),
      judge(
        process,
        "descriptors",
        own.map(({ openFiles }) => openFiles),
      ),
    ];
  });
}

function judge(process: string, what: Growth["what"], figures: readonly number[]): Growth {
  const quarter = Math.floor(figures.length / 4);
  const early = median(figures.slice(0, quarter));
  const late = median(figures.slice(-quarter));
  return { process, what, early, late, isTooMuch: late > early * (1 + SHARE_MAX) + FLOOR[what] };
}
