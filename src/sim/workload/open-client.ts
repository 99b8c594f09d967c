// The real client, as a process of the simulated world.
import { openClient } from "../../client/client.ts";
import type { Client } from "../../client/types.ts";
import type { Codecs } from "../../ports/codecs.ts";
import type { Timers } from "../../ports/timers.ts";
import type { HistoryEvent } from "../../checkers/history.ts";
import type { SimNetwork } from "../network.ts";
import { createSimLogger } from "../sim-ports.ts";
import { paced } from "./pace.ts";
import { createSimClock, type Incarnation, type SimWorld } from "../world.ts";

interface ClientWorld {
  readonly world: SimWorld;
  readonly network: SimNetwork;
  readonly codecs: Codecs;
  /** Addresses to begin at. */
  readonly brokers: readonly string[];
  readonly record: (event: HistoryEvent) => void;
}

/** Goes on trying for longer than any cluster of a run is away. */
const CONNECT_TIMEOUT_MS = 120_000;

export function openSimClient(name: string, at: ClientWorld, owner: Incarnation, timers: Timers): Promise<Client> {
  const { world, network, codecs, brokers, record } = at;
  return openClient(
    {
      clock: createSimClock(world, owner),
      timers,
      transport: paced(network.messages(owner), { name, world, record }),
      checksum: world.checksum,
      codecs,
      logger: createSimLogger(world, name),
      rng: world.fork(`client ${name}`),
    },
    { brokers, clientId: name, connectTimeoutMs: CONNECT_TIMEOUT_MS },
  );
}
