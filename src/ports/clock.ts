// Time. Durations are measured on `monoMs`; `wallMs` is only data (D-23).
export interface Clock {
  /** Milliseconds since an arbitrary origin, never going back. Fractions allowed. */
  monoMs(): number;
  /** Milliseconds since 1970, an integer; may jump either way. */
  wallMs(): number;
}
