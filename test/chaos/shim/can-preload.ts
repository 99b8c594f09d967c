// Whether the preload shim can be compiled and loaded here; tests that need it are skipped where not, with a notice.
import { buildShim } from "../../../src/chaos/shim/build.ts";

const reason = await buildShim().then(
  () => undefined,
  (error: unknown) => String(error),
);
if (reason !== undefined) console.warn(`NOT RUN: tests of the preload shim: ${reason}`);

export const canPreload = reason === undefined;
