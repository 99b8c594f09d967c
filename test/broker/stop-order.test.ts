// A stop on a disk that is slow for the metadata only: nobody else may have the directory before all of it is written.
import { expect, test } from "vitest";
import type { FileHandle, Files } from "../../src/ports/files.ts";
import type { Incarnation } from "../../src/sim/world.ts";
import { BrokerWorld } from "./support.ts";

/** Longer than a quorum waits for its store when it is closed. */
const SLOW_MS = 2_500;

interface Watched {
  isSlow: boolean;
  /** Syncs of the metadata under way. */
  syncing: number;
  /** That many were, when the lock was let go; undefined: it is held. */
  syncingAtRelease: number | undefined;
}

function watched(broker: BrokerWorld, files: Files, owner: Incarnation, seen: Watched): Files {
  const slowed = (handle: FileHandle): FileHandle =>
    new Proxy(handle, {
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== "function") return found;
        if (name !== "datasync") return found.bind(target) as unknown;
        return async () => {
          seen.syncing++;
          if (seen.isSlow) await broker.world.later({ delayMs: SLOW_MS, kind: "slow", owner }, () => undefined);
          await target.datasync();
          seen.syncing--;
        };
      },
    });
  return new Proxy(files, {
    get: (target, name) => {
      if (name === "open")
        return async (...args: Parameters<Files["open"]>) => {
          const handle = await target.open(...args);
          return args[0].includes("/metadata/") ? slowed(handle) : handle;
        };
      if (name === "lockDirectory")
        return async (path: string) => {
          const lock = await target.lockDirectory(path);
          if (lock.kind === "held") return lock;
          const release = () => {
            seen.syncingAtRelease = seen.syncing;
            return lock.release();
          };
          return { ...lock, release };
        };
      const found: unknown = Reflect.get(target, name);
      return typeof found === "function" ? (found.bind(target) as unknown) : found;
    },
  });
}

test("the lock of the directory is let go when the metadata is written, however long that takes", async () => {
  const seen: Watched = { isSlow: false, syncing: 0, syncingAtRelease: undefined };
  const broker = new BrokerWorld();
  const filesOf = broker.disk.files.bind(broker.disk);
  broker.disk.files = (owner) => watched(broker, filesOf(owner), owner, seen);
  await broker.world.settle(broker.start());
  const client = await broker.connect();
  await client.createTopic("before");
  seen.isSlow = true;
  const created = client.createTopic("under way").catch((thrown: unknown) => thrown);
  await broker.world.runUntil(() => seen.syncing > 0, broker.world.nowMs + 1_000);
  expect(seen.syncing).toBeGreaterThan(0);
  await broker.stop();
  await broker.world.settle(created);
  expect(seen.syncingAtRelease).toBe(0);
});
