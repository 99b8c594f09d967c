// The address list of the metadata quorum: `1@host:port,2@host:port`. Only addresses: who votes stands in the quorum's own log (D-20).
import { OttlaError } from "./errors.ts";
import { type NodeId, toNodeId } from "./ids.ts";

export interface VoterAddress {
  readonly nodeId: NodeId;
  /** host:port. */
  readonly address: string;
}

const NODE_ID_MAX = 65_535;

function fault(text: string, why: string): OttlaError {
  return new OttlaError("CONFIG_UNREADABLE", `controller.quorum.voters: ${why} in ${JSON.stringify(text)}`);
}

/** In ascending order of the ids. Throws CONFIG_UNREADABLE. */
export function parseVoters(text: string): VoterAddress[] {
  const voters = text.split(",").map((part): VoterAddress => {
    const match = /^(\d{1,5})@([^\s,@]+:\d{1,5})$/.exec(part.trim());
    const id = Number(match?.[1]);
    if (match?.[2] === undefined || id < 1 || id > NODE_ID_MAX)
      throw fault(text, `"${part.trim()}" is not id@host:port`);
    return { nodeId: toNodeId(id), address: match[2] };
  });
  voters.sort((one, other) => one.nodeId - other.nodeId);
  for (const [at, { nodeId, address }] of voters.entries()) {
    if (voters[at - 1]?.nodeId === nodeId) throw fault(text, `node ${nodeId} stands twice`);
    if (voters.some((other) => other.nodeId !== nodeId && other.address === address))
      throw fault(text, `${address} stands twice`);
  }
  return voters;
}
