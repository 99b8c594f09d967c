// One life of a node within a process: what reaches it runs, waits or is dropped, and nothing of it is left open at its end.
import { describe, expect, it } from "vitest";
import type { FileHandle } from "../../src/ports/files.ts";
import type { ConnectionHandlers, MessageConnection } from "../../src/ports/transport.ts";
import { createMemoryFiles } from "../../src/platform/memory-files.ts";
import { createTimers } from "../../src/platform/timers.ts";
import { HeldFiles, heldTimers, heldTransport } from "../../src/test-cluster/held-ports.ts";
import { Life } from "../../src/test-cluster/life.ts";

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
const wait = (delayMs: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, delayMs));

/** Whether it is settled some turns from now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(
    () => (settled = true),
    () => (settled = true),
  );
  for (let count = 0; count < 3; count++) await turn();
  return settled;
}

describe("a life", () => {
  it("runs what comes at once; what comes while it is held runs afterwards, in order, and before what comes later", async () => {
    const life = new Life();
    const ran: string[] = [];
    life.run(() => ran.push("a"));
    expect(ran).toEqual(["a"]);
    life.hold();
    life.run(() => {
      ran.push("b");
      void Promise.resolve().then(() => ran.push("what b resolves"));
    });
    life.run(() => ran.push("c"));
    expect(ran).toEqual(["a"]);
    life.release();
    life.run(() => ran.push("d"));
    expect(ran).toEqual(["a"]);
    for (let count = 0; count < 3; count++) await turn();
    expect(ran).toEqual(["a", "b", "what b resolves", "c", "d"]);
    life.run(() => ran.push("e"));
    expect(ran.at(-1)).toBe("e");
  });

  it("may be held again before it has caught up, and go on after something threw", async () => {
    const life = new Life();
    const ran: string[] = [];
    const thrown: unknown[] = [];
    const listeners = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.once("uncaughtException", (error) => thrown.push(error));
    life.hold();
    life.run(() => {
      throw new Error("planted");
    });
    life.run(() => life.hold());
    life.run(() => ran.push("last"));
    life.release();
    for (let count = 0; count < 4; count++) await turn();
    for (const listener of listeners) process.on("uncaughtException", listener);
    expect(thrown).toHaveLength(1);
    expect(ran).toEqual([]);
    life.release();
    for (let count = 0; count < 3; count++) await turn();
    expect(ran).toEqual(["last"]);
  });

  it("drops what waits when it ends, and all that comes later", async () => {
    const life = new Life();
    const dropped: string[] = [];
    const never = () => {
      throw new Error("it ran");
    };
    life.hold();
    life.run(never, () => dropped.push("a"));
    life.atEnd(() => dropped.push("end"));
    life.end();
    life.run(never, () => dropped.push("b"));
    life.atEnd(() => dropped.push("late end"));
    expect(dropped).toEqual(["end", "a", "b", "late end"]);
    await life.ended;
    life.release();
    await turn();
  });

  it("hears of a call's outcome only while it runs; what comes after its end is given back", async () => {
    const life = new Life();
    const late: string[] = [];
    let finish: (value: string) => void = () => undefined;
    const called = life.call(
      () => new Promise<string>((resolve) => (finish = resolve)),
      (value) => late.push(value),
    );
    life.end();
    finish("a socket");
    expect(await isSettled(called)).toBe(false);
    expect(late).toEqual(["a socket"]);
    let isStarted = false;
    const never = life.call(async () => {
      isStarted = true;
    });
    expect(await isSettled(never)).toBe(false);
    expect(isStarted).toBe(false);
  });
});

describe("timers of a life", () => {
  it("fire after the pause in which they came due, unless they are cancelled meanwhile", async () => {
    const life = new Life();
    const timers = heldTimers(life, createTimers());
    const fired: string[] = [];
    timers.after(1, () => fired.push("a"));
    const cancelled = timers.after(1, () => fired.push("b"));
    timers.defer(() => fired.push("c"));
    life.hold();
    await wait(10);
    cancelled.cancel();
    expect(fired).toEqual([]);
    life.release();
    await expect.poll(() => fired.toSorted()).toEqual(["a", "c"]);
  });

  it("are gone with it", async () => {
    const life = new Life();
    const timers = heldTimers(life, createTimers());
    let hasFired = false;
    timers.after(1, () => (hasFired = true));
    life.end();
    timers.after(1, () => (hasFired = true)).cancel();
    await wait(10);
    expect(hasFired).toBe(false);
  });
});

describe("files of a life", () => {
  it("write nothing once it has ended, are closed then, and let their lock go", async () => {
    const disk = createMemoryFiles(1 << 20);
    await disk.makeDirectory("data");
    const life = new Life();
    const files = new HeldFiles(life, disk);
    expect((await files.lockDirectory("data")).kind).toBe("acquired");
    const handle: FileHandle = await files.open("data/a", "create");
    await handle.write(0, [new Uint8Array([1, 2])]);
    life.end();
    const written = handle.write(0, [new Uint8Array([9, 9])]);
    await files.letGo();
    expect(await isSettled(written)).toBe(false);
    const again = await disk.open("data/a", "read");
    const bytes = new Uint8Array(2);
    await again.read(0, bytes);
    expect([...bytes]).toEqual([1, 2]);
    await again.close();
    expect((await disk.lockDirectory("data")).kind).toBe("acquired");
  });

  it("do nothing while it is held", async () => {
    const disk = createMemoryFiles(1 << 20);
    const life = new Life();
    const files = new HeldFiles(life, disk);
    life.hold();
    const opened = files.open("a", "create");
    expect(await isSettled(opened)).toBe(false);
    expect(await disk.list("")).toEqual([]);
    life.release();
    await (await opened).close();
    expect(await disk.list("")).toHaveLength(1);
  });

  it("take no more than the capacity of a disk in memory; what is unlinked and closed makes room", async () => {
    const disk = createMemoryFiles(256 * 1024);
    const handle = await disk.open("a", "create");
    await handle.write(0, [new Uint8Array(128 * 1024)]);
    await expect(handle.write(128 * 1024, [new Uint8Array(256 * 1024)])).rejects.toMatchObject({ kind: "no-space" });
    expect(await disk.freeBytes("")).toBe(0);
    await handle.truncate(64 * 1024);
    expect(await disk.freeBytes("")).toBe(192 * 1024);
    await disk.unlink("a");
    expect(await disk.freeBytes("")).toBe(192 * 1024);
    await handle.close();
    expect(await disk.freeBytes("")).toBe(256 * 1024);
  });

  it("read zeros where a file in memory was cut and has grown again, or was never written", async () => {
    const disk = createMemoryFiles(1 << 20);
    const handle = await disk.open("a", "create");
    const page = 64 * 1024;
    await handle.write(0, [new Uint8Array(2 * page).fill(7)]);
    await handle.truncate(page - 1);
    await handle.write(3 * page, [new Uint8Array([5])]);
    const bytes = new Uint8Array(3 * page + 1);
    expect(await handle.read(0, bytes)).toBe(bytes.length);
    expect([...new Set(bytes.subarray(0, page - 1))]).toEqual([7]);
    expect([...new Set(bytes.subarray(page - 1, 3 * page))]).toEqual([0]);
    expect(bytes.at(-1)).toBe(5);
    expect(await disk.freeBytes("")).toBe((1 << 20) - 2 * page);
  });
});

class FakeConnection implements MessageConnection {
  readonly remote = "fake:1";
  readonly unsentBytes = 0;
  readonly said: string[] = [];
  handlers: ConnectionHandlers<Uint8Array> | undefined;
  start(handlers: ConnectionHandlers<Uint8Array>): void {
    this.handlers = handlers;
  }
  send(): void {
    this.said.push("send");
  }
  pause(): void {
    this.said.push("pause");
  }
  resume(): void {
    this.said.push("resume");
  }
  close(): void {
    this.said.push("close");
  }
  destroy(): void {
    this.said.push("destroy");
  }
}

describe("connections of a life", () => {
  async function connected() {
    const life = new Life();
    const fake = new FakeConnection();
    const transport = heldTransport(life, {
      connect: async () => fake,
      listen: () => Promise.reject(new Error("not here")),
    });
    const connection = await transport.connect("fake:1");
    const received: string[] = [];
    connection.start({
      onReceive: (message) => received.push(`message ${message.length}`),
      onClose: (reason) => received.push(reason),
      onDrain: () => received.push("drain"),
    });
    return { life, fake, connection, received };
  }

  it("are not read during a pause, and nothing is sent or told; a pause of the owner's own goes on afterwards", async () => {
    const { life, fake, connection, received } = await connected();
    life.hold();
    expect(fake.said).toEqual(["pause"]);
    connection.send([]);
    fake.handlers?.onReceive(new Uint8Array(3));
    fake.handlers?.onDrain();
    expect(received).toEqual([]);
    life.release();
    for (let count = 0; count < 3; count++) await turn();
    expect(received).toEqual(["message 3", "drain"]);
    expect(fake.said).toEqual(["pause", "resume", "send"]);
    connection.pause();
    life.hold();
    life.release();
    expect(fake.said.filter((word) => word === "resume")).toHaveLength(1);
    connection.resume();
    expect(fake.said.at(-1)).toBe("resume");
  });

  it("are cut at its end, and those that are closed before are forgotten", async () => {
    const { life, fake, received } = await connected();
    const other = await connected();
    other.fake.handlers?.onClose("gone");
    expect(other.received).toEqual(["gone"]);
    life.end();
    other.life.end();
    expect(fake.said).toEqual(["destroy"]);
    expect(other.fake.said).toEqual([]);
    fake.handlers?.onClose("cut");
    expect(received).toEqual([]);
  });
});
