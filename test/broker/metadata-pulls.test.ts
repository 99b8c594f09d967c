// Pulls of metadata by peers that take no answers: what waits for room is not kept, it is pulled again when there is (D-26).
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { Accountant } from "../../src/broker/accountant.ts";
import { AnswerRoom } from "../../src/broker/answer-room.ts";
import { handleFetchMetadata } from "../../src/broker/handlers/37-fetch-metadata.ts";
import { ScanGate } from "../../src/broker/scan-gate.ts";
import type { NodeServices } from "../../src/broker/services.ts";
import type { FetchMetadataRequest } from "../../src/wire/native/quorum-apis.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

const PIECE_BYTES = 256 * 1024;

function setUp({ sizeBytes = PIECE_BYTES } = {}) {
  const accountant = new Accountant(
    { produceBytes: 2 ** 20, unsentBytes: 2 ** 20, delayedRequests: 10 },
    (work) => void setImmediate(work),
  );
  const connection = { isOpen: true, unsentBytes: 0, answers: undefined as unknown as AnswerRoom };
  connection.answers = new AnswerRoom(connection, accountant.unsent, 2 ** 20);
  const pieces: WeakRef<Uint8Array>[] = [];
  const asked: number[] = [];
  const fetchMetadata = ({ maxBytes }: FetchMetadataRequest) => {
    asked.push(maxBytes);
    const bytes = new Uint8Array(Math.min(sizeBytes, maxBytes));
    pieces.push(new WeakRef(bytes));
    return Promise.resolve({ response: {}, bodies: [bytes] });
  };
  const node = { accountant, scans: new ScanGate(), quorum: { fetchMetadata } } as unknown as NodeServices;
  const answered: string[] = [];
  const request = {
    connection,
    body: { maxBytes: 2 ** 30 },
    isDone: false,
    respond: (_: unknown, bodies: readonly Uint8Array[]) => answered.push(`${bodies[0]?.length} bytes`),
    drop: () => answered.push("dropped"),
  };
  const begin = () => handleFetchMetadata(node, request as unknown as Parameters<typeof handleFetchMetadata>[1]);
  return { accountant, connection, pieces, asked, answered, begin };
}

describe("D-26: a pull of metadata that there is no room for", () => {
  test("keeps nothing while it waits, and is made again for as much as it was given", async () => {
    const { accountant, connection, pieces, asked, answered, begin } = setUp();
    connection.unsentBytes = 1_000;
    accountant.unsent.add(accountant.unsent.capBytes);
    const pulling = begin();
    await nextTurn();
    expect(asked).toEqual([2 ** 30]);
    await nextTurn();
    collectGarbage();
    expect(pieces[0]?.deref()).toBeUndefined();
    expect(answered).toEqual([]);
    accountant.unsent.add(-accountant.unsent.capBytes);
    await pulling;
    expect(asked).toEqual([2 ** 30, PIECE_BYTES]);
    expect(answered).toEqual([`${PIECE_BYTES} bytes`]);
    expect([accountant.unsent.usedBytes, accountant.delayedCount]).toEqual([0, 0]);
  });

  test("ends with its connection", async () => {
    const { accountant, connection, asked, answered, begin } = setUp();
    connection.unsentBytes = 1_000;
    accountant.unsent.add(accountant.unsent.capBytes);
    const pulling = begin();
    await nextTurn();
    connection.answers.close();
    await pulling;
    expect(answered).toEqual(["dropped"]);
    expect(asked).toHaveLength(1);
    expect([accountant.unsent.usedBytes, accountant.delayedCount]).toEqual([accountant.unsent.capBytes, 0]);
  });

  test("is answered in short pieces when nothing of its own waits", async () => {
    const { accountant, asked, answered, begin } = setUp();
    accountant.unsent.add(accountant.unsent.capBytes);
    await begin();
    expect(asked).toEqual([2 ** 30, 64 * 1024]);
    expect(answered).toEqual(["65536 bytes"]);
    expect(accountant.unsent.usedBytes).toBe(accountant.unsent.capBytes);
  });

  test("is answered all the same when it is small: who follows the quorum does not wait for the slow readers of others", async () => {
    const { accountant, asked, answered, begin } = setUp({ sizeBytes: 1_000 });
    accountant.unsent.add(accountant.unsent.capBytes);
    await begin();
    expect(asked).toHaveLength(1);
    expect(answered).toEqual(["1000 bytes"]);
  });
});
