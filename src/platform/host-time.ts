// The timers and the monotonic clock of the host as they were when this was loaded, with the package: a test that fakes time fakes its own, and the
// network, the disks and the brokers beside it go on.

export const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = globalThis;

const { performance } = globalThis;
const read = performance.now;

/** Monotonic milliseconds. */
export const monoMs = (): number => read.call(performance);

/** They were faked before the package was loaded: nothing that waits would ever end. Test libraries leave their mark on what they put in place. */
export const isFaked = [setTimeout, setInterval, setImmediate, read].some(
  (each) => Object.hasOwn(each, "clock") || Object.hasOwn(each, "_isMockFunction"),
);
