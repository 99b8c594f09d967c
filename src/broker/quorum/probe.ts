// What tests and the simulator may watch of a node's quorum. Production gives none; a probe looks and never acts.
import type { MetadataImage } from "../../metadata/image.ts";
import type { RaftNode } from "../../raft/raft-node.ts";
import type { Message, Ready, RestoredState } from "../../raft/types.ts";

/** Each call comes in the turn in which the thing happens. */
export interface QuorumProbe {
  /** A Raft core was made from what the disk holds; it has had no input yet. */
  onRaftStarted(core: RaftNode, restored: RestoredState): void;
  /** What ready() handed out, before any of it is carried out. */
  onReady(core: RaftNode, ready: Ready): void;
  /** A message is handed to the connection to its peer; of messagesAfterSync: after the sync. It may be dropped there. */
  onMessage(message: Message): void;
  /** The image changed: after each entry applied or skipped and each snapshot loaded, on voters and observers. */
  onApplied(image: MetadataImage): void;
}
