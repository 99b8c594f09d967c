// A follower that is only its requests: for what real ones never send.
import { Alarms } from "../../../src/link/alarms.ts";
import { BrokerConnection } from "../../../src/link/broker-connection.ts";
import { type ErrorName, errorNameOf } from "../../../src/model/errors.ts";
import { toNodeId } from "../../../src/model/ids.ts";
import { createSimClock, createSimTimers } from "../../../src/sim/world.ts";
import { API } from "../../../src/wire/native/apis.ts";
import { REPLICA_ROW, type ReplicaFetchRequest } from "../../../src/wire/native/replication-apis.ts";
import type { ReplicatingNodes } from "./nodes.ts";

export interface RawRow {
  readonly slot: number;
  readonly error: ErrorName;
  readonly leaderEpoch: number;
  readonly highWatermark: number;
  readonly diverging: readonly [epoch: number, end: number];
  readonly bytes: number;
}

export interface RawAnswer {
  /** Of the request as a whole. */
  readonly error: ErrorName;
  readonly rows: readonly RawRow[];
  /** Bytes of bodies in each part. */
  readonly parts: readonly number[];
  readonly atMs: number;
}

export class RawFollower {
  readonly connection: BrokerConnection;
  readonly #nodes: ReplicatingNodes;
  readonly #identity: { readonly nodeId: number; readonly brokerEpoch: number; readonly sessionId: number };

  private constructor(
    nodes: ReplicatingNodes,
    connection: BrokerConnection,
    identity: { readonly nodeId: number; readonly brokerEpoch: number; readonly sessionId: number },
  ) {
    this.#nodes = nodes;
    this.connection = connection;
    this.#identity = identity;
  }

  static async open(
    nodes: ReplicatingNodes,
    leader: number,
    identity: { readonly nodeId: number; readonly brokerEpoch: number; readonly sessionId: number },
  ): Promise<RawFollower> {
    const { world, network } = nodes;
    const incarnation = world.startIncarnation(`raw ${identity.nodeId} ${identity.sessionId}`);
    const alarms = new Alarms({
      clock: createSimClock(world, incarnation),
      timers: createSimTimers(world, incarnation),
    });
    const opening = network
      .messages(incarnation)
      .connect(nodes.node(leader).address)
      .then(async (raw) => {
        const events = { onClosed: () => undefined, onDrain: () => undefined };
        const connection = new BrokerConnection(raw, { alarms, events });
        await connection.hello(`node ${identity.nodeId}`, 5_000, "test");
        return connection;
      });
    return new RawFollower(nodes, await world.settle(opening), identity);
  }

  fetch(request: Partial<ReplicaFetchRequest>): Promise<RawAnswer> {
    const rows: RawRow[] = [];
    const parts: number[] = [];
    const { world } = this.#nodes;
    const { nodeId, ...identity } = this.#identity;
    const whole: ReplicaFetchRequest = {
      nodeId: toNodeId(nodeId),
      ...identity,
      maxWaitMs: 500,
      maxBytes: 8 * 1024 * 1024,
      added: [],
      positions: [],
      removed: [],
      ...request,
    };
    return new Promise((resolve) => {
      this.connection.request(
        API.REPLICA_FETCH,
        { request: whole, bodies: [], timeoutMs: 20_000 },
        {
          onAnswer: (response, bodies, isLast) => {
            for (let at = 0; at < response.rows.length; at += REPLICA_ROW.WIDTH)
              rows.push(rowAt(response.rows, at, bodies));
            parts.push(bodies.reduce((sum, body) => sum + body.length, 0));
            if (isLast) resolve({ error: "NONE", rows, parts, atMs: world.nowMs });
          },
          onFailure: (error) => resolve({ error: error.code, rows, parts, atMs: world.nowMs }),
        },
      );
    });
  }

  answer(request: Partial<ReplicaFetchRequest>): Promise<RawAnswer> {
    return this.#nodes.world.settle(this.fetch(request));
  }

  report(rows: readonly number[], identity: Partial<typeof this.identity> = {}): void {
    const { nodeId, ...rest } = { ...this.#identity, ...identity };
    this.connection.tell(API.DURABLE_REPORT, { nodeId: toNodeId(nodeId), ...rest, rows }, []);
  }

  get identity() {
    return this.#identity;
  }
}

function rowAt(rows: readonly number[], at: number, bodies: readonly Uint8Array[]): RawRow {
  const field = (name: keyof typeof REPLICA_ROW): number => rows[at + REPLICA_ROW[name]] as number;
  return {
    slot: field("SLOT"),
    error: errorNameOf(field("ERROR")),
    leaderEpoch: field("LEADER_EPOCH"),
    highWatermark: field("HIGH_WATERMARK"),
    diverging: [field("DIVERGING_EPOCH"), field("DIVERGING_END")],
    bytes: bodies[field("BODY")]?.length ?? 0,
  };
}
