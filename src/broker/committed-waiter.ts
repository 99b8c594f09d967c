// Waits, for a short time, until what partitions have accepted is committed.
import type { HighWatermarkWaiter, Replica } from "./replica.ts";
import type { Services } from "./services.ts";

interface Goal {
  readonly replica: Replica;
  readonly endOffset: number;
}

class CommittedWaiter implements HighWatermarkWaiter {
  readonly #goals: readonly Goal[];
  readonly #onReached: () => void;

  constructor(goals: readonly Goal[], onReached: () => void) {
    this.#goals = goals;
    this.#onReached = onReached;
  }

  onMoved(): void {
    if (this.#goals.every(isReached)) this.#onReached();
  }
}

function isReached({ replica, endOffset }: Goal): boolean {
  return replica.core.highWatermark >= endOffset || replica.core.role !== "leader";
}

/** Resolves when every high watermark has reached the log end of now, after `waitMs`, or when nothing expires any more. */
export async function untilCommitted(
  services: Pick<Services, "deadlines" | "accountant">,
  replicas: readonly Replica[],
  waitMs: number,
): Promise<void> {
  const goals = replicas
    .map((replica): Goal => ({ replica, endOffset: replica.core.endOffset }))
    .filter((goal) => !isReached(goal));
  if (goals.length === 0 || !services.accountant.tryDelay()) return;
  let end = (): void => undefined;
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  const waiter = new CommittedWaiter(goals, end);
  for (const { replica } of goals) replica.waiters.add(waiter);
  const deadline = services.deadlines.add(waitMs, end, end);
  await over;
  deadline.cancel();
  for (const { replica } of goals) replica.waiters.delete(waiter);
  services.accountant.endDelay();
}
