// What a leader has against a producer before it looks at the partition: acks below all (D-28), an epoch that its name has left behind (invariant 24).
import { mutant } from "../base/mutant.ts";
import { NAMED_PRODUCER_IDS_START } from "../metadata/records.ts";
import type { ErrorName } from "../model/errors.ts";
import type { RequiredAcks } from "../replication/types.ts";
import type { Services } from "./services.ts";

export interface ProducerRefusal {
  readonly error: ErrorName;
  readonly message: string;
}

/** `producerId`: -1 none. Called in the turn in which the batch is appended. */
export function producerRefusal(
  { quorum, clock, membership }: Pick<Services, "quorum" | "clock" | "membership">,
  producer: { readonly producerId: number; readonly producerEpoch: number },
  acks: RequiredAcks,
): ProducerRefusal | undefined {
  const { producerId, producerEpoch } = producer;
  if (producerId < 0) return undefined;
  if (acks !== -1) return { error: "INVALID_REQUIRED_ACKS", message: `a batch with a producer id and acks ${acks}` };
  if (producerId < NAMED_PRODUCER_IDS_START) return undefined;
  switch (quorum.image.producerIds.verdictOn(producerId, producerEpoch)) {
    case "fenced":
      return { error: "PRODUCER_FENCED", message: `epoch ${producerEpoch} of producer ${producerId} has passed` };
    case "ahead":
      return {
        error: "BUSY",
        message: `this broker has not heard of epoch ${producerEpoch} of producer ${producerId}`,
      };
    case "taken":
      break;
  }
  // Whoever took the name over waits for this broker until its session has ended: from then on it must not take anything, whatever it still believes.
  return clock.monoMs() < membership.heardUntilMs || mutant("I24h")
    ? undefined
    : { error: "BUSY", message: "the controller may have given the name away: it was not heard of for a session" };
}
