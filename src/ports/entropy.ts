// Unpredictable bytes, for identities.
export interface Entropy {
  fill(target: Uint8Array): void;
}
