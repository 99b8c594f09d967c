// One question to one broker about many partitions.
import { asOttlaError, OttlaError } from "../model/errors.ts";
import type { BrokerConnection } from "../link/broker-connection.ts";
import type { BrokerLink } from "./broker-link.ts";
import type { ClientContext } from "./context.ts";

/** An answer for each, or why there is none: what fails as a whole fails for all. `ask` has what is left of the time once it is connected, ms. */
export async function askMany<Wish, Answer>(
  { alarms }: ClientContext,
  asked: { readonly link: BrokerLink; readonly wishes: readonly Wish[]; readonly timeoutMs: number },
  ask: (connection: BrokerConnection, leftMs: number) => Promise<readonly Answer[]>,
): Promise<(Answer | OttlaError)[]> {
  const { link, wishes, timeoutMs } = asked;
  const deadlineMs = alarms.nowMs() + timeoutMs;
  try {
    const connection = await link.getWithin(timeoutMs, "CONNECTION_FAILED");
    const answers = await ask(connection, Math.max(1, deadlineMs - alarms.nowMs()));
    return wishes.map((_, at) => answers[at] ?? new OttlaError("PROTOCOL_ERROR", "an answer without it"));
  } catch (thrown) {
    const error = asOttlaError(thrown);
    return wishes.map(() => error);
  }
}
