// What a node says of itself when it is asked who it is, and how far its disk is (D-20).
import type { VoterHelloResponse } from "../../wire/native/quorum-apis.ts";
import type { RaftHost } from "./raft-host.ts";

type Base = Pick<VoterHelloResponse, "nodeId" | "directoryId" | "voters" | "clusterId">;

/** Of no cluster yet. */
export function helloBefore(base: Base, state: "empty" | "starting"): VoterHelloResponse {
  const nothing = { clusterId: null, founding: false, configuration: null, boots: 0, term: 0, end: 0, commitEnd: 0 };
  return { ...base, ...nothing, state };
}

/** Only what is durable: whoever asks remembers it, and a crash must not take it back. */
export function helloOf(
  base: Base,
  { host, boots }: { readonly host: RaftHost; readonly boots: number },
): VoterHelloResponse {
  const { log, configuration } = host.core;
  const first = host.foundingConfiguration;
  return {
    ...base,
    state: "formed",
    founding: first !== undefined,
    configuration: first ?? (log.end > 0 ? configuration : null),
    boots,
    term: host.durableTerm,
    end: log.durableEnd,
    commitEnd: Math.min(log.commitEnd, log.durableEnd),
  };
}
