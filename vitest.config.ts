// How the tests run: in forked processes, four at a time since most of them wait for real processes, and an empty selection is a failure.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["**/node_modules/**", "test/interop/**"],
    pool: "forks",
    maxWorkers: 4,
    passWithNoTests: false,
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // A test that cannot fail is worse than none: `.only` left behind fails, and so does a promise rejected unseen.
    allowOnly: false,
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
