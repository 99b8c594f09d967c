// A 64-bit hash of text, for telling apart the images of two nodes: two lanes of FNV-1a with unlike primes. Not against forgery.

const LANE = { first: 0x811c9dc5, second: 0x9dc5811c };
const PRIME = { first: 0x01000193, second: 0x85ebca6b };

export class StateHash {
  #first = LANE.first;
  #second = LANE.second;

  /** Each call is one field: "ab" then "c" is not "a" then "bc". */
  add(text: string): this {
    let first = this.#first;
    let second = this.#second;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      first = Math.imul(first ^ unit, PRIME.first);
      second = Math.imul(second ^ unit, PRIME.second);
      second ^= second >>> 15;
    }
    this.#first = Math.imul(first ^ text.length, PRIME.first);
    this.#second = Math.imul(second ^ 0x10000, PRIME.second);
    return this;
  }

  get hex(): string {
    return [this.#first, this.#second].map((lane) => (lane >>> 0).toString(16).padStart(8, "0")).join("");
  }
}
