import { describe, expect, test } from "vitest";
import { Account, Accountant } from "../../src/broker/accountant.ts";

describe("D-26: accounts", () => {
  test("an account tells once that it has room, when it has fallen to three quarters", () => {
    const account = new Account("test", 100);
    let told = 0;
    account.onRoom = () => told++;
    account.add(90);
    account.add(-50);
    expect(told).toBe(0);
    account.add(80);
    expect(account.isFull).toBe(true);
    account.add(-30);
    expect([account.isFull, told]).toEqual([false, 0]);
    account.add(-15);
    account.add(-15);
    expect([account.usedBytes, told]).toEqual([60, 1]);
  });

  test("places for delayed requests are bounded; a forced one is given back like the others", () => {
    const accountant = new Accountant({ requestBytes: 1, unsentBytes: 1, delayedRequests: 2 });
    expect([accountant.tryDelay(), accountant.tryDelay(), accountant.tryDelay()]).toEqual([true, true, false]);
    accountant.forceDelay();
    for (let index = 0; index < 3; index++) accountant.endDelay();
    expect(accountant.delayedCount).toBe(0);
  });
});
