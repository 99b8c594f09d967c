import { describe, expect, test } from "vitest";
import { AssertionFailure } from "../../src/base/assert.ts";
import { Account, Accountant } from "../../src/broker/accountant.ts";

/** An account of 100 bytes, and what it deferred. */
function setUp(capBytes = 100) {
  const deferred: (() => void)[] = [];
  const account = new Account("test", capBytes, (work) => deferred.push(work));
  const turn = () => {
    for (const work of deferred.splice(0)) work();
  };
  return { account, turn, deferred };
}

function waiter(sizeBytes: number, granted: string[], name: string) {
  return { sizeBytes, isWaiting: true, onRoom: () => void granted.push(name) };
}

describe("D-26: accounts", () => {
  test("an account tells once that it has room, when it has fallen to three quarters, in a later turn", () => {
    const { account, turn } = setUp();
    let told = 0;
    account.onRoom = () => told++;
    account.add(90);
    account.add(-50);
    turn();
    expect(told).toBe(0);
    account.add(80);
    expect(account.isFull).toBe(true);
    account.add(-30);
    turn();
    expect([account.isFull, told]).toEqual([false, 0]);
    account.add(-15);
    account.add(-15);
    expect(told).toBe(0);
    turn();
    expect([account.usedBytes, told]).toEqual([60, 1]);
  });

  test("whoever hears of room may use the account: nothing is counted twice, and less than nothing is a defect", () => {
    const { account, turn } = setUp();
    account.onRoom = () => account.add(5);
    account.add(100);
    account.add(-100);
    expect(account.usedBytes).toBe(0);
    turn();
    expect(account.usedBytes).toBe(5);
    expect(() => account.add(-6)).toThrow(AssertionFailure);
  });

  test("waiters are served in order, each when it fits; one who has left is passed over", () => {
    const { account, turn, deferred } = setUp();
    const granted: string[] = [];
    account.add(90);
    expect(account.tryReserve(20)).toBe(false);
    account.wait(waiter(20, granted, "a"));
    account.wait({ ...waiter(50, granted, "gone"), isWaiting: false });
    account.wait(waiter(30, granted, "b"));
    // It would fit, but not before those who wait.
    expect(account.tryReserve(5)).toBe(false);
    account.add(-15);
    turn();
    expect([granted, account.usedBytes]).toEqual([["a"], 95]);
    account.add(-40);
    turn();
    expect([granted, account.usedBytes, account.isWaitedFor]).toEqual([["a", "b"], 85, false]);
    expect(deferred).toEqual([]);
  });

  test("large ones leave half of the account to the others, and one larger than the account goes when it is nearly empty", () => {
    const MiB = 1024 * 1024;
    const { account, turn } = setUp(8 * MiB);
    const granted: string[] = [];
    expect([account.tryReserve(3 * MiB), account.tryReserve(2 * MiB), account.tryReserve(MiB)]).toEqual([
      true,
      false,
      true,
    ]);
    account.wait(waiter(20 * MiB, granted, "huge"));
    expect(account.tryReserve(MiB)).toBe(true);
    account.add(-2 * MiB);
    turn();
    expect(granted).toEqual([]);
    account.add(-MiB);
    turn();
    expect([granted, account.usedBytes]).toEqual([["huge"], 22 * MiB]);
  });

  test("places for delayed requests are bounded; a forced one is given back like the others", () => {
    const accountant = new Accountant({ produceBytes: 1, unsentBytes: 1, delayedRequests: 2 }, () => {});
    expect([accountant.tryDelay(), accountant.tryDelay(), accountant.tryDelay()]).toEqual([true, true, false]);
    accountant.forceDelay();
    for (let index = 0; index < 3; index++) accountant.endDelay();
    expect(accountant.delayedCount).toBe(0);
  });
});
