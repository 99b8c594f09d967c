// After an unclean election what a consumer has read may be gone, and records of others may stand in its place. The batch that it read last is
// fetched once more: the same epoch and checksum in the same place mean that all before it is the same, too.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import { crcAt, lastOffsetAt, leaderEpochAt } from "../model/record-batch.ts";
import type { TopicId } from "../model/ids.ts";
import { API, type FetchResponse, type PartitionMetadata } from "../wire/native/apis.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ConsumerPartition } from "./consumer-partition.ts";
import { answerTimeoutMs } from "./fetch-source.ts";

/** An unclean election lies between what was read last and now. */
export function mustCheckHistory(partition: ConsumerPartition, { uncleanEpoch }: PartitionMetadata): boolean {
  if (uncleanEpoch <= partition.checkedUncleanEpoch) return false;
  const { lastRead, fetchOffset } = partition;
  if (lastRead !== undefined && lastRead.nextOffset === fetchOffset && lastRead.leaderEpoch < uncleanEpoch) return true;
  // Nothing was read of before, or after a jump it is not known what stood there.
  partition.checkedUncleanEpoch = uncleanEpoch;
  return false;
}

/** Never rejects. */
export async function askHistory(
  partition: ConsumerPartition,
  at: { readonly link: BrokerLink; readonly metadata: PartitionMetadata },
): Promise<"same" | "lost" | OttlaError> {
  const { fetchOffset, lastRead, topicId } = partition;
  try {
    const timeoutMs = answerTimeoutMs([partition]);
    const connection = await at.link.getWithin(timeoutMs, "REQUEST_TIMED_OUT");
    const entry = {
      topicId: topicId as TopicId,
      partition: partition.index,
      leaderEpoch: at.metadata.leaderEpoch,
      offset: fetchOffset - 1,
      maxBytes: 1,
    };
    const request = { maxWaitMs: 0, minBytes: 1, maxBytes: 1, entries: [entry] };
    const { found, body } = await new Promise<Found>((resolve, reject) => {
      connection.request(
        API.FETCH,
        { request, bodies: [], timeoutMs, isPatient: true },
        {
          onAnswer: ({ entries }, bodies, isLast) => {
            const [first] = entries;
            if (first !== undefined) resolve({ found: first, body: bodies[first.body] });
            else if (isLast) reject(new OttlaError("PROTOCOL_ERROR", "a fetch answer without its entry"));
          },
          onFailure: reject,
        },
      );
    });
    if (found.error === "OFFSET_OUT_OF_RANGE") return found.logStartOffset === fetchOffset ? "same" : "lost";
    if (found.error !== "NONE") return new OttlaError(found.error);
    if (body === undefined || body.length === 0) {
      // -1: it does not know yet how far it goes.
      const endsBefore = found.highWatermark >= 0 && found.highWatermark < fetchOffset;
      return endsBefore ? "lost" : new OttlaError("OFFSET_NOT_AVAILABLE");
    }
    const isSame =
      lastOffsetAt(body, 0) + 1 === fetchOffset &&
      leaderEpochAt(body, 0) === lastRead?.leaderEpoch &&
      crcAt(body, 0) === lastRead.crc;
    return isSame ? "same" : "lost";
  } catch (thrown) {
    return asOttlaError(thrown);
  }
}

interface Found {
  readonly found: FetchResponse["entries"][number];
  readonly body: Uint8Array | undefined;
}

export function lostHistory({ topic, index, fetchOffset }: ConsumerPartition): OttlaError {
  const message = `${topic}-${index}: what was read below offset ${fetchOffset} is not all there any more: an unclean election has given it up`;
  return new OttlaError("OFFSET_OUT_OF_RANGE", message);
}
