import { expect, test } from "vitest";
import { Gate } from "../../src/base/gate.ts";

test("so many works run at once, the others in the order in which they came; one that fails gives its place back", async () => {
  const gate = new Gate(2);
  const begun: number[] = [];
  const ends: ((how: "end" | "fail") => void)[] = [];
  const works = [0, 1, 2, 3].map((number) =>
    gate
      .run(() => {
        begun.push(number);
        return new Promise<void>((resolve, reject) => {
          ends[number] = (how) => (how === "end" ? resolve() : reject(new Error("failed")));
        });
      })
      .catch((error: unknown) => String(error)),
  );
  await Promise.resolve();
  expect(begun).toEqual([0, 1]);
  ends[1]?.("fail");
  expect(await works[1]).toBe("Error: failed");
  expect(begun).toEqual([0, 1, 2]);
  ends[0]?.("end");
  await works[0];
  expect(begun).toEqual([0, 1, 2, 3]);
  ends[2]?.("end");
  ends[3]?.("end");
  await Promise.all(works);
  expect(await gate.run(() => Promise.resolve("there is room again"))).toBe("there is room again");
});
