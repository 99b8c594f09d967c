// One damaged request after the other, on some connections at once. Behind each goes a small sound request: when that is answered, or the connection
// ended, the damaged one has been dealt with.
import { createRng, type Rng } from "../../src/base/rng.ts";
import { API } from "../../src/wire/native/apis.ts";
import { encodeRequest } from "../../src/wire/native/codec.ts";
import type { CaseRun } from "./case-run.ts";
import { damaged, repaired } from "./mutations.ts";
import { frame, RawPeer } from "./raw-peer.ts";
import { API_KEYS, type Knowledge, sampleOf } from "./samples.ts";

const CASES_PER_CONNECTION = 200;
/** A peer that announced more than it sends gets no answer before the broker's own patience ends: it leaves when another one got so many. */
const SILENT_ROUNDS = 6;
const ID_MAX = 2 ** 31;

export interface FrameCase {
  readonly messages: readonly Uint8Array[];
  /** Sent as they are, in place of the frames of the messages. */
  readonly raw: Uint8Array | undefined;
  readonly isRepaired: boolean;
  readonly saysHello: boolean;
}

/** Every second one is repaired; the apis take turns. */
export function frameCase(seed: number, index: number, known: Knowledge): FrameCase {
  const rng = createRng(seed).fork(`frame ${index}`);
  const isRepaired = index % 2 === 1;
  const api = API_KEYS[(index >>> 1) % API_KEYS.length] ?? API.HELLO;
  const correlationId = (2 * index) % ID_MAX;
  const sound = sampleOf(api, known, { rng, correlationId });
  const saysHello = !rng.chance(0.02);
  if (isRepaired) return { messages: repaired(sound, rng), raw: undefined, isRepaired, saysHello };
  if (rng.chance(0.1)) return { messages: [], raw: damagedFrames(sound, rng), isRepaired, saysHello };
  const other = sampleOf(rng.pick(API_KEYS), known, { rng, correlationId: correlationId + 1 });
  return { messages: damaged(sound, other, rng), raw: undefined, isRepaired, saysHello };
}

/** Opcode, length, mask, fragments: what lies below the messages. */
function damagedFrames(messages: readonly Uint8Array[], rng: Rng): Uint8Array {
  const bytes = Buffer.concat(
    messages.map((message) =>
      frame(message, { opcode: rng.chance(0.5) ? 2 : rng.below(16), isFinal: rng.chance(0.8) }),
    ),
  );
  for (let left = rng.below(3); left > 0; left--) bytes[rng.below(Math.min(bytes.length, 16))] = rng.below(256);
  return rng.chance(0.2) ? bytes.subarray(0, rng.below(bytes.length)) : bytes;
}

export async function attackWithFrames(run: CaseRun): Promise<void> {
  await Promise.all(Array.from({ length: run.atOnce }, () => worker(run)));
}

async function worker(run: CaseRun): Promise<void> {
  let peer: RawPeer | undefined;
  let done = 0;
  for (let next = run.indices.next(); next.done !== true && !run.isOver(); next = run.indices.next()) {
    const index = next.value;
    const frames = frameCase(run.seed, index, run.known);
    const name = `frame:${index}`;
    run.underWay.add(name);
    if (
      peer === undefined ||
      peer.closeReason !== undefined ||
      !frames.saysHello ||
      ++done % CASES_PER_CONNECTION === 0
    ) {
      peer?.destroy();
      peer = openPeer(run, frames.saysHello);
    }
    await strike(peer, frames, { index, run });
    run.underWay.delete(name);
  }
  peer?.destroy();
}

function openPeer({ address, counts }: CaseRun, saysHello: boolean): RawPeer {
  const peer = new RawPeer(address, counts);
  const header = { api: API.HELLO, version: 0, correlationId: ID_MAX, deadlineMs: 0 } as const;
  if (saysHello) peer.send(encodeRequest(header, { clientId: "attacker", software: "attack 1" }, []));
  return peer;
}

async function strike(
  peer: RawPeer,
  { messages, raw }: FrameCase,
  { index, run: { counts, control } }: { index: number; run: CaseRun },
): Promise<void> {
  const correlationId = ID_MAX + 1 + (index % (ID_MAX - 2));
  const answered = peer.answerTo(correlationId).then((answer) => (answer === undefined ? "ended" : "answered"));
  if (raw === undefined) peer.send(messages);
  else peer.sendRaw(raw);
  peer.send(encodeRequest({ api: API.LIST_OFFSETS, version: 0, correlationId, deadlineMs: 0 }, { entries: [] }, []));
  const silent = peer.upgraded.then(() => control.rounds(SILENT_ROUNDS)).then(() => "silent");
  const outcome = await Promise.race([answered, silent]);
  counts.add(`then ${outcome}`);
  if (outcome === "silent") peer.destroy();
}
