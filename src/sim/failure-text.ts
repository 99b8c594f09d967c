// What was thrown in a run, for people.

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

export function describeFailure(thrown: unknown): string {
  const error = asError(thrown);
  const cause = error.cause instanceof Error ? `\ncaused by ${error.cause.stack ?? error.cause.message}` : "";
  return `${error.stack ?? error.message}${cause}`;
}
