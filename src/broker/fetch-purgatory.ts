// The fetches under way, so that a stop or a closed connection can end them. What each waits for is with the partitions (their waiters) and
// with the broker's deadlines; nothing here has a timer.
import type { ErrorName } from "../model/errors.ts";
import type { FetchOperation } from "./fetch-operation.ts";

export class FetchPurgatory {
  readonly #operations = new Set<FetchOperation>();

  get count(): number {
    return this.#operations.size;
  }

  /** Runs the operation to its end. */
  async run(operation: FetchOperation): Promise<void> {
    const { dependents } = operation.request.connection;
    this.#operations.add(operation);
    dependents.add(operation);
    try {
      await operation.run();
    } finally {
      this.#operations.delete(operation);
      dependents.delete(operation);
    }
  }

  abandonAll(error: ErrorName): void {
    for (const operation of [...this.#operations]) operation.abandon(error);
  }
}
