// The address list of the metadata quorum: `1@host:port,2@host:port`. Only addresses: who votes stands in the quorum's own log (D-20).
import { OttlaError } from "./errors.ts";
import { type NodeId, toNodeId } from "./ids.ts";

export interface VoterAddress {
  readonly nodeId: NodeId;
  /** host:port. */
  readonly address: string;
}

const NODE_ID_MAX = 65_535;
/** Bound: as many as a quorum can have. */
const VOTERS_MAX = 64;

function fault(text: string, why: string): OttlaError {
  return new OttlaError("CONFIG_UNREADABLE", `controller.quorum.voters: ${why} in ${JSON.stringify(text)}`);
}

/** In ascending order of the ids. Throws CONFIG_UNREADABLE. */
export function parseVoters(text: string): VoterAddress[] {
  const parts = text.split(",", VOTERS_MAX + 1);
  if (parts.length > VOTERS_MAX) throw fault(text.slice(0, 256), `more than ${VOTERS_MAX} nodes`);
  const voters = parts.map((part): VoterAddress => {
    const match = /^(\d{1,5})@([^\s,@]+:\d{1,5})$/.exec(part.trim());
    const id = Number(match?.[1]);
    if (match?.[2] === undefined || id < 1 || id > NODE_ID_MAX)
      throw fault(text, `"${part.trim()}" is not id@host:port`);
    return { nodeId: toNodeId(id), address: match[2] };
  });
  voters.sort((one, other) => one.nodeId - other.nodeId);
  const addresses = new Set<string>();
  for (const [at, { nodeId, address }] of voters.entries()) {
    if (voters[at - 1]?.nodeId === nodeId) throw fault(text, `node ${nodeId} stands twice`);
    if (addresses.has(address)) throw fault(text, `${address} stands twice`);
    addresses.add(address);
  }
  return voters;
}
