// Exit codes of every Ottla process, stable for scripts (README, `ottla --help`).
export const EXIT = {
  OK: 0,
  /** The command failed, or any item of a multi-item command did; also `ottla log verify|dump` that found damage. */
  FAILED: 1,
  /** Wrong flags, arguments or configuration; also what the broker refuses as such. */
  USAGE: 2,
  /** No broker reached, or timed out. */
  UNREACHABLE: 3,
  NOT_FOUND: 4,
  DENIED: 5,
  /** Refused as unsafe without --yes. */
  UNSAFE: 6,
  UNHEALTHY: 10,
  /** A node found loss, corruption or a broken invariant in its own data. */
  INVARIANT_BROKEN: 20,
  /** A node's disk failed a write or a sync (D-13, D-18). */
  DISK_FAILED: 30,
  /** A sync failed during recovery: starting is refused (D-13). */
  RECOVERY_FAILED: 31,
  /** The data directory is locked, foreign, newer or read-only. */
  DATA_DIR_REFUSED: 32,
  /** An assertion failed. */
  BUG: 70,
  SIGHUP: 129,
  SIGINT: 130,
  SIGTERM: 143,
} as const;
