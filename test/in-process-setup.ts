// Around each test file of those that share a process: what it may have switched on there is off for the next one.
import { afterAll, vi } from "vitest";
import { onFailpoint } from "../src/base/failpoint.ts";
import { activateMutants } from "../src/base/mutant.ts";

afterAll(() => {
  activateMutants([]);
  onFailpoint(null);
  vi.useRealTimers();
});
