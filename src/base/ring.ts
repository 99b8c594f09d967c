// A queue over a growing power-of-two array: constant-time push and shift (Array.shift is linear on long queues).

export class Ring<T> {
  #items: (T | undefined)[] = new Array<T | undefined>(16);
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(item: T): void {
    if (this.#length === this.#items.length) this.#grow();
    this.#items[(this.#head + this.#length) & (this.#items.length - 1)] = item;
    this.#length++;
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#items.length - 1);
    this.#length--;
    return item;
  }

  /** The youngest item. */
  pop(): T | undefined {
    if (this.#length === 0) return undefined;
    const at = (this.#head + --this.#length) & (this.#items.length - 1);
    const item = this.#items[at];
    this.#items[at] = undefined;
    return item;
  }

  peek(): T | undefined {
    return this.at(0);
  }

  /** The item at this distance from the head, or undefined past the tail. */
  at(index: number): T | undefined {
    return index < this.#length ? this.#items[(this.#head + index) & (this.#items.length - 1)] : undefined;
  }

  clear(): void {
    this.#items = new Array<T | undefined>(16);
    this.#head = 0;
    this.#length = 0;
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (let index = 0; index < this.#length; index++) yield this.at(index) as T;
  }

  #grow(): void {
    const grown = new Array<T | undefined>(this.#items.length * 2);
    for (let index = 0; index < this.#length; index++) grown[index] = this.at(index);
    this.#items = grown;
    this.#head = 0;
  }
}
