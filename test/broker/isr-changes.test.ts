// The controller's queue of ISR wishes: few requests of each leader wait, however many are sent in its name.
import { describe, expect, it } from "vitest";
import { IsrChanges } from "../../src/broker/controller/isr-changes.ts";
import type { Decision } from "../../src/metadata/controller.ts";
import { MetadataImage } from "../../src/metadata/image.ts";
import type { OttlaError } from "../../src/model/errors.ts";
import { toNodeId } from "../../src/model/ids.ts";
import type { Logger } from "../../src/ports/logger.ts";

const silent = (): void => undefined;
const logger: Logger = { debug: silent, info: silent, warn: silent, error: silent, child: () => logger };
const wishOf = (nodeId: number) => ({ nodeId: toNodeId(nodeId), brokerEpoch: 1, entries: [] });

describe("wishes of leaders", () => {
  it("four of a node wait: a newer one takes the oldest one's place, which is told to come again", async () => {
    const decided: (() => void)[] = [];
    const changes = new IsrChanges({
      quorum: {
        image: new MetadataImage(),
        propose: (decide) =>
          new Promise<Decision>((resolve) => {
            decided.push(() => resolve(decide(new MetadataImage())));
          }),
      },
      logger,
      run: (work) => void work,
      onMovedAway: () => undefined,
      isDamaged: () => false,
    });
    const underWay = changes.request(wishOf(1));
    const older = Array.from({ length: 100 }, () =>
      changes.request(wishOf(1)).then(String, (error: OttlaError) => error.code),
    );
    const newest = Array.from({ length: 4 }, () => changes.request(wishOf(1)));
    const other = changes.request(wishOf(2));
    expect(await Promise.all(older)).toEqual(older.map(() => "BUSY"));
    decided.shift()?.();
    expect(await underWay).toEqual({ entries: [] });
    await Promise.resolve();
    decided.shift()?.();
    expect(await Promise.all([...newest, other])).toEqual([...newest, other].map(() => ({ entries: [] })));
    expect(decided).toEqual([]);
  });
});
