// Addresses of the configuration, without loading its schema.

/** host:port of a listeners value. */
export function addressOf(listener: string): string {
  return listener.replace(/^ws:\/\//, "");
}
