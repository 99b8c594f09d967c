// What the simulator is lent by the real world: a way to let microtasks run, the real checksum and codecs; and the tripwires
// that make a run fail when simulated code reaches for the host's clock, chance or timers behind the ports.
import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";
import { type BrokerConfig, brokerConfigOf } from "../src/model/config.ts";
import { toNodeId } from "../src/model/ids.ts";
import { createChecksum } from "../src/platform/checksum.ts";
import { loadCodecs } from "../src/platform/codecs.ts";
import type { Codecs } from "../src/ports/codecs.ts";
import type { StorageConfig } from "../src/storage/types.ts";
import type { WorldHost } from "../src/sim/world.ts";

const KiB = 1024;

/** So small that segments roll and checkpoints happen all the time. */
export const ENUMERATOR_CONFIG: StorageConfig = {
  directory: "data",
  nodeId: toNodeId(1),
  clusterId: undefined,
  segmentBytes: 2 * KiB,
  indexIntervalBytes: 256,
  journalBytes: 16 * KiB,
  checkpointIntervalMs: 200,
  journalPinnedBytes: 64 * KiB,
  tailCacheBytes: 4 * KiB,
  diskLowSpaceBytes: 0,
  diskReserveBytes: 0,
  openFilesMax: 8,
};

export interface SimHost extends WorldHost {
  /** Every key of a broker with its default. */
  readonly baseConfig: BrokerConfig;
  readonly codecs: Codecs;
  /** Monotonic milliseconds of the host, for measuring the simulator itself. */
  readonly realMs: () => number;
  /** Makes the host's clock, chance and timers throw until the returned function is called. */
  readonly setTripwires: () => () => void;
}

const realNow = performance.now.bind(performance);
const realImmediate = setImmediate;

export async function createSimHost(): Promise<SimHost> {
  return {
    pump,
    checksum: createChecksum(),
    codecs: await loadCodecs(),
    baseConfig: brokerConfigOf({ "node.id": 1, "data.dir": "data" }),
    realMs: realNow,
    setTripwires,
  };
}

/** Steps in one turn of the host's event loop, after which rejections that nobody handled come to light. */
const STEPS_PER_TURN = 1000;

/**
 * Runs all ready microtasks now; works only when called from no microtask itself. Three times as fast as a turn of the event
 * loop for each event; undefined where the engine does not offer it.
 */
function microtaskCheckpoint(): (() => void) | undefined {
  try {
    setFlagsFromString("--allow-natives-syntax");
    return runInThisContext("(() => { %PerformMicrotaskCheckpoint(); })") as () => void;
  } catch {
    return undefined;
  }
}

const checkpoint = microtaskCheckpoint();

function pump(step: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const turn = (): void => {
      try {
        for (let count = checkpoint === undefined ? 1 : STEPS_PER_TURN; count > 0; count--) {
          if (!step()) return resolve();
          checkpoint?.();
        }
        realImmediate(turn);
      } catch (thrown) {
        reject(thrown instanceof Error ? thrown : new Error(String(thrown)));
      }
    };
    realImmediate(turn);
  });
}

function forbidden(name: string): () => never {
  return () => {
    throw new Error(`${name} was called in a simulated run: simulated code goes through the ports`);
  };
}

/** Node's own modules keep their private references, so only code that names the globals is caught. */
function setTripwires(): () => void {
  const targets: readonly [object: object, key: string][] = [
    [Date, "now"],
    [Math, "random"],
    [performance, "now"],
    [globalThis, "setTimeout"],
    [globalThis, "setInterval"],
    [globalThis, "setImmediate"],
    [globalThis, "queueMicrotask"],
    [globalThis, "fetch"],
    [globalThis.crypto, "getRandomValues"],
    [globalThis.crypto, "randomUUID"],
    [AbortSignal, "timeout"],
  ];
  const restore = targets.map(([object, key]) => {
    const own = Object.getOwnPropertyDescriptor(object, key);
    Object.defineProperty(object, key, { configurable: true, writable: true, value: forbidden(key) });
    return () => {
      if (own === undefined) Reflect.deleteProperty(object, key);
      else Object.defineProperty(object, key, own);
    };
  });
  return () => {
    for (const undo of restore) undo();
  };
}
