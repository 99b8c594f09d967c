// Peers that ask and do not read: what is held for all of them together is bounded, whatever they ask for, and others are served (D-26).
import { beforeAll, expect, test } from "vitest";
import { API, type MetadataResponse } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import { startWorld } from "./support.ts";

const KiB = 1024;
const PEERS = 40;
const UNSENT_MAX = 1024 * KiB;
/** What a peer may hold beyond the account. */
const SHARE_BYTES = 64 * KiB;

const asks = {
  "pages of metadata": { count: 3, api: API.METADATA, request: { topics: null, after: null, barrier: false } },
  "pages of metadata behind a barrier": {
    count: 3,
    api: API.METADATA,
    request: { topics: null, after: null, barrier: true },
  },
} as const;

type World = Awaited<ReturnType<typeof startWorld>>;

let world: World;
beforeAll(async () => {
  const config = { "unsent.bytes": `${UNSENT_MAX}`, "connection.unsent.bytes": `${2 * UNSENT_MAX}` };
  world = await startWorld({ config });
  for (let topic = 0; topic < 20; topic++) await world.client.createTopic(`t${topic}`, { partitions: 1000 });
});

for (const [what, { count, api, request }] of Object.entries(asks)) {
  test(`D-26: ${what} for peers that take none`, async () => {
    const { broker, client } = world;
    const isDrained = () => (broker.metrics.values.get("unsent_bytes") ?? 0) < 16 * KiB;
    expect(isDrained(), "nothing is left of what came before").toBe(true);
    const peers = [];
    for (let peer = 0; peer < PEERS; peer++) peers.push(await broker.connect());
    for (const { connection } of peers) {
      connection.pause();
      // In one turn, as they come in one read of a socket.
      const header = { api, version: 1, deadlineMs: 0 };
      connection.send(
        Array.from({ length: count }, (_, index) =>
          encodeRequest({ ...header, correlationId: 100 + index }, request, []),
        ).flat(),
      );
    }
    let peakBytes = 0;
    for (let step = 0; step < 40; step++) {
      await broker.world.runFor(100);
      peakBytes = Math.max(peakBytes, broker.metrics.values.get("unsent_bytes") ?? 0);
    }
    expect(peakBytes).toBeGreaterThan(100 * KiB);
    expect(peakBytes).toBeLessThan(UNSENT_MAX + PEERS * SHARE_BYTES);
    let after: string | null = null;
    const seen: string[] = [];
    do {
      const page: MetadataResponse = await client.metadata(null, after);
      seen.push(...page.topics.map(({ name }) => name));
      after = page.next;
    } while (after !== null);
    expect(seen).toHaveLength(20);
    for (const { connection } of peers) connection.resume();
    expect(await broker.world.runUntil(isDrained, broker.world.nowMs + 300_000), "everybody is answered").toBe(true);
    expect(broker.fatal).toEqual([]);
  });
}
