// Assertions that stay on in production: a failed one is a bug in Ottla, never a broken environment or a bad peer.

/** Thrown by {@link assert}: a broken invariant. The process that sees it stops. */
export class AssertionFailure extends Error {
  override readonly name = "AssertionFailure";
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionFailure(message);
}

/** The value that an invariant says is there. */
export function present<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new AssertionFailure(`${what} is missing`);
  return value;
}

/** Closes a switch over a union: a new member that is not handled does not compile. */
export function assertNever(value: never): never {
  throw new AssertionFailure(`unreachable: ${JSON.stringify(value)}`);
}
