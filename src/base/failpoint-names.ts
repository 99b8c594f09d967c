// Every failpoint, and between which steps it stands. A test shows that each is reached.

export const FAILPOINTS = {
  "journal-written": "records are in the journal, and not synced",
  "journal-synced": "the journal is synced, and nobody was told",
  "journal-sealed": "the journal is sealed and synced, and there is no next one",
  "journal-created": "the next journal is there, and nothing was written to it",
  "segment-written": "durable batches are in a segment, which is not synced",
  "checkpoint-sealed": "a checkpoint has begun: the segments are not at its end",
  "checkpoint-segments-synced": "the segments are synced, and there is no image",
  "checkpoint-image-unnamed": "the image is synced under another name",
  "checkpoint-image-written": "the image is there, and the superblock names the one before",
  "checkpoint-committed": "the superblock names the new image, and the old files are there",
  "superblock-one-slot": "one slot of the superblock is new, the other is old",
  "log-directory-made": "a log has a directory, and no CREATE in the journal",
  "log-directory-renamed": "a deleted log's directory is renamed, and not removed",
  "recovery-replayed": "a start has replayed the journals, and nothing is synced",
  "recovery-image-written": "a start has written its image, and the superblock names the one before",
  "recovery-committed": "a start has its superblock, and the old files are there",
  "state-one-slot": "one slot of the quorum's state is new, the other is old",
  "state-committed": "term and vote are durable, and the entries of the same write are not there",
  "metadata-written": "entries of the metadata log are written, and not synced",
  "metadata-synced": "entries of the metadata log are synced, and nobody was told",
  "metadata-rolled": "the metadata log has a new file, and its directory is not synced",
  "metadata-cut": "entries of the metadata log are cut off, and that is not synced",
  "snapshot-unnamed": "a snapshot of the metadata is synced under another name",
  "snapshot-named": "a snapshot of the metadata has its name, and its directory is not synced",
  "broker-epoch-unstored": "the broker is registered, and has not stored its epoch",
  "broker-epoch-stored": "the broker has stored its epoch, and not confirmed it",
  "leader-epoch-durable": "a leader's epoch is durable, and it does not lead yet",
  "partition-created": "a partition's log is there, and nobody fetches into it",
} as const;

export type FailpointName = keyof typeof FAILPOINTS;
