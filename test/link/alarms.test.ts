import { describe, expect, it } from "vitest";
import { Alarms } from "../../src/link/alarms.ts";
import { OttlaError } from "../../src/model/errors.ts";
import { VirtualTime } from "../client/world.ts";

function setUp() {
  const time = new VirtualTime();
  let setCount = 0;
  const timers = {
    ...time.timers,
    after: (delayMs: number, callback: () => void) => {
      setCount++;
      return time.timers.after(delayMs, callback);
    },
  };
  return { time, alarms: new Alarms({ clock: time.clock, timers }), setCount: () => setCount };
}

describe("Alarms", () => {
  it("keeps thousands of deadlines on one timer", async () => {
    const { time, alarms, setCount } = setUp();
    const fired: number[] = [];
    for (let index = 0; index < 5_000; index++) alarms.after(30_000 + index / 10, () => fired.push(index));
    expect(setCount()).toBe(1);
    const early = alarms.after(10, () => fired.push(-1));
    expect(setCount()).toBe(2);
    early.cancel();
    await time.pass(30_499);
    expect(fired).toHaveLength(4_961); // due up to 30,496 ms: a deadline is met up to a tick late
    expect(fired).toEqual(fired.toSorted((left, right) => left - right));
  });

  it("ends every sleep and every wait when it is closed", async () => {
    const { time, alarms } = setUp();
    const never = new Promise<void>(() => {});
    const waits = Promise.allSettled([alarms.sleep(1_000), alarms.within(never, 1_000, () => new OttlaError("BUSY"))]);
    alarms.close();
    const late = Promise.allSettled([alarms.sleep(1)]);
    for (const outcome of [...(await time.until(waits, 1)), ...(await time.until(late, 1))]) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "CLOSED" } });
    }
  });

  it("D-22: lets pass what is ready before a deadline that is late", async () => {
    const { time, alarms } = setUp();
    const order: string[] = [];
    alarms.after(100, () => order.push("deadline"));
    time.stall(5_000);
    time.timers.defer(() => order.push("answer"));
    await time.pass(1);
    expect(order).toEqual(["answer", "deadline"]);
  });
});
