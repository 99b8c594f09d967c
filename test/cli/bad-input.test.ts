// Bytes that no client of ours would send, to the port of a real process: each gets its coded answer, the sender is cut off where
// the protocol says so, another client's running produce does not notice, and the data directory keeps its shape.
import type { ChildProcess } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorName } from "../../src/model/errors.ts";
import { RecordBatchBuilder } from "../../src/model/records.ts";
import { createChecksum } from "../../src/platform/checksum.ts";
import { loadCodecs } from "../../src/platform/codecs.ts";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import type { MessageConnection } from "../../src/ports/transport.ts";
import { API, type ApiKey, type ApiTypes, type ProduceResponse } from "../../src/wire/native/apis.ts";
import { encodeRequest, ResponseAssembler } from "../../src/wire/native/codec.ts";
import { packPlain } from "../../src/wire/native/msgpack.ts";
import type { DecodedResponse } from "../../src/wire/native/protocol.ts";
import { collect, json, outputMatching, type RunResult, start, startTestCluster, type TestCluster } from "./support.ts";

let cluster: TestCluster;
let topicId = "";
let bystander: ChildProcess;
let bystanderEnded: Promise<RunResult>;
let fed = 0;
let feeding: NodeJS.Timeout;
let shapeBefore: string[] = [];

/** Without what the next checkpoint makes, which comes when a minute is over. */
const shape = () =>
  (readdirSync(`${cluster.dataDir}/node-1/data`, { recursive: true }) as string[])
    .filter((name) => !/\.new$|lock|^(checkpoint|journal)\/|-0\/(\d{20}\.\w+|leader-epoch-checkpoint)$/.test(name))
    .sort();

beforeAll(async () => {
  cluster = await startTestCluster();
  for (const name of ["target", "bystander"])
    expect((await cluster.run(["topic", "create", name, "-P", "1"])).code).toBe(0);
  topicId = json(await cluster.run(["topic", "describe", "target", "--json"]))["topicId"] as string;
  bystander = start(["produce", "bystander", "--acks", "all"], { env: { OTTLA_BOOTSTRAP: cluster.address } });
  bystanderEnded = collect(bystander);
  feeding = setInterval(() => bystander.stdin?.write(`line ${fed++}\n`), 5);
  const follower = start(["consume", "bystander", "-n", "1"], { env: { OTTLA_BOOTSTRAP: cluster.address } });
  await outputMatching(follower, "stdout", /line/);
  shapeBefore = shape();
});

afterAll(async () => {
  clearInterval(feeding);
  bystander.kill("SIGKILL");
  await cluster.stop();
});

/** One connection that may say anything. */
class Peer {
  readonly closed: Promise<string>;
  readonly #connection: MessageConnection;
  readonly #answers: DecodedResponse[] = [];
  #wake: () => void = () => undefined;
  #isClosed = false;

  private constructor(connection: MessageConnection) {
    this.#connection = connection;
    const assembler = new ResponseAssembler({ bodyBytesMax: 1024 * 1024 });
    this.closed = new Promise((resolve) => {
      connection.start({
        onReceive: (bytes) => {
          const assembled = assembler.push(bytes);
          if (assembled.kind === "message") this.#answers.push(assembled.message);
          this.#wake();
        },
        onClose: (reason) => {
          this.#isClosed = true;
          this.#wake();
          resolve(reason);
        },
        onDrain: () => undefined,
      });
    });
  }

  static async connect(): Promise<Peer> {
    return new Peer(await createWebSocketTransport().connect(cluster.address));
  }

  /** A connection that has shaken hands. */
  static async greeted(): Promise<Peer> {
    const peer = await Peer.connect();
    const answer = await peer.ask(API.HELLO, { clientId: "bad-input", software: "test" });
    expect(answer?.header.error).toBe("NONE");
    return peer;
  }

  send(...messages: Uint8Array[]): void {
    this.#connection.send(messages);
  }

  ask<K extends ApiKey>(
    api: K,
    request: ApiTypes[K]["request"],
    bodies: Uint8Array[] = [],
  ): Promise<DecodedResponse | undefined> {
    this.send(
      ...encodeRequest(
        { api, version: api === API.HELLO ? 0 : 0, correlationId: 7, deadlineMs: 5000 },
        request,
        bodies,
      ),
    );
    return this.answer();
  }

  /** The next answer; undefined when the connection closed without one. */
  async answer(): Promise<DecodedResponse | undefined> {
    while (this.#answers.length === 0 && !this.#isClosed) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#answers.shift();
  }

  end(): void {
    this.#connection.destroy();
  }
}

const codecs = await loadCodecs();
const checksum = createChecksum();

function batch(count = 3): Uint8Array {
  const builder = new RecordBatchBuilder({ limitBytes: 10_000 });
  for (let index = 0; index < count; index++)
    builder.tryAppend({ key: null, value: Buffer.from(`v${index}`), headers: [], timestamp: 1_700_000_000_000 });
  return builder.build({ compression: "none", codecs, checksum });
}

/** A batch with one field changed and its checksum right again. */
function altered(change: (view: DataView) => void): Uint8Array {
  const bytes = batch();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  change(view);
  view.setUint32(17, checksum.crc32c(bytes.subarray(21)));
  return bytes;
}

const produceRequest = (
  over: Partial<{ acks: number; topicId: string; partition: number }> = {},
): ApiTypes[typeof API.PRODUCE]["request"] => ({
  acks: over.acks ?? -1,
  timeoutMs: 5000,
  entries: [
    { topicId: (over.topicId ?? topicId) as never, partition: over.partition ?? 0, leaderEpoch: -1, isResent: false },
  ],
});

/** Sends raw bytes over TCP and takes what comes until the port closes. */
function overTcp(bytes: Uint8Array | string): Promise<string> {
  const { hostname, port } = new URL(`http://${cluster.address}`);
  return new Promise((resolve) => {
    let text = "";
    const socket: Socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
}

describe("not the native protocol", () => {
  it("raw bytes: one coded line, closed", async () => {
    expect(await overTcp("\u0000\u0001\u0002 hello\r\n\r\n")).toMatch(/error\[[A-Z_]+\]: /);
  });

  it("plain HTTP: 426 with one coded line", async () => {
    const answer = await fetch(`http://${cluster.address}/nothing`);
    expect(answer.status).toBe(426);
    expect(await answer.text()).toMatch(/^error\[[A-Z_]+\]: .*\n$/);
  });
});

describe("a broken connection is answered where it can be, then closed", () => {
  const rows: readonly [string, ErrorName, (peer: Peer) => void][] = [
    ["bytes that are no MessagePack", "BAD_ENVELOPE", (peer) => peer.send(Uint8Array.of(0xc1, 0xc1))],
    ["deep nesting", "BAD_ENVELOPE", (peer) => peer.send(new Uint8Array(5000).fill(0x91))],
    ["a huge count", "BAD_ENVELOPE", (peer) => peer.send(Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff))],
    [
      "an envelope over 64 KiB",
      "FRAME_TOO_LARGE",
      (peer) => peer.send(packPlain([API.METADATA, 0, 9, 0, [], ["x".repeat(100_000)]])),
    ],
    ["an unknown api", "UNKNOWN_API", (peer) => peer.send(packPlain([999, 0, 9, 0, [], []]))],
    [
      "an unknown version",
      "UNSUPPORTED_VERSION",
      (peer) => peer.send(packPlain([API.METADATA, 99, 9, 0, [], [null, null]])),
    ],
    [
      "a payload of another shape",
      "BAD_ENVELOPE",
      (peer) => peer.send(packPlain([API.METADATA, 0, 9, 0, [], [5, 5, 5]])),
    ],
    [
      "an envelope where a body is owed",
      "BODY_MISMATCH",
      (peer) => {
        const large = new Uint8Array(20_000);
        const [envelope] = encodeRequest(
          { api: API.PRODUCE, version: 0, correlationId: 9, deadlineMs: 0 },
          produceRequest(),
          [large],
        );
        if (envelope !== undefined) peer.send(envelope, packPlain([API.METADATA, 0, 10, 0, [], [null, null]]));
      },
    ],
  ];

  it.each(rows)("%s -> %s", async (_what, code, act) => {
    const peer = await Peer.greeted();
    act(peer);
    const answer = await peer.answer();
    const reason = await peer.closed;
    expect(answer === undefined ? reason : answer.header.error, reason).toContain(code);
  });

  it("a single message beyond every limit", async () => {
    const peer = await Peer.greeted();
    peer.send(new Uint8Array(70 * 1024 * 1024));
    await peer.closed;
  });

  it("anything before Hello -> HANDSHAKE_REQUIRED", async () => {
    const peer = await Peer.connect();
    const answer = await peer.ask(API.METADATA, { topics: null, after: null, barrier: false });
    expect(answer?.header.error ?? (await peer.closed)).toContain("HANDSHAKE_REQUIRED");
    await peer.closed;
  });
});

describe("a well-formed request with bad content is answered, the connection stays", () => {
  const rows: readonly [string, ErrorName, () => [Parameters<typeof produceRequest>[0], Uint8Array]][] = [
    ["a wrong checksum", "CORRUPT_MESSAGE", () => [{}, flipped()]],
    ["a wrong record count", "INVALID_RECORD", () => [{}, altered((view) => view.setInt32(57, 5))]],
    ["an unknown topic id", "UNKNOWN_TOPIC_ID", () => [{ topicId: "AAAAAAAAAAAAAAAAAAAAAQ" }, batch()]],
    ["an unknown partition", "UNKNOWN_TOPIC_OR_PARTITION", () => [{ partition: 5 }, batch()]],
    ["bad acks", "INVALID_REQUIRED_ACKS", () => [{ acks: 2 }, batch()]],
  ];
  const flipped = () => {
    const bytes = batch();
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    return bytes;
  };

  it.each(rows)("%s -> %s", async (_what, code, make) => {
    const peer = await Peer.greeted();
    const [over, body] = make();
    const answer = await peer.ask(API.PRODUCE, produceRequest(over), [body]);
    const entries = (answer?.response as ProduceResponse | null)?.entries;
    expect(entries?.[0]?.error ?? answer?.header.error).toBe(code);
    if (entries !== undefined) expect(entries[0]?.outcome).toBe("not appended");
    const good = await peer.ask(API.PRODUCE, produceRequest(), [batch()]);
    expect((good?.response as ProduceResponse | undefined)?.entries[0]).toMatchObject({
      error: "NONE",
      outcome: "appended",
    });
    peer.end();
  });
});

describe("after all of it", () => {
  it("the other client's produce went on untouched, and the data directory has the same files", async () => {
    clearInterval(feeding);
    bystander.stdin?.end();
    const { code, stderr } = await bystanderEnded;
    expect(stderr).toContain(`${fed} records acknowledged of ${fed} read`);
    expect(code).toBe(0);
    const { stdout } = await cluster.run(["consume", "bystander", "-e", "-q"]);
    expect(stdout).toBe(Array.from({ length: fed }, (_, index) => `line ${index}\n`).join(""));
    // Only the good batches of the last group arrived.
    expect((await cluster.run(["consume", "target", "-e", "-q"])).stdout).toBe("v0\nv1\nv2\n".repeat(5));
    expect(shape()).toEqual(shapeBefore);
  });
});
