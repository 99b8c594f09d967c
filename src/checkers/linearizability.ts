// Whether a history of concurrent operations on one object could have been done one at a time, each at some moment between its
// invocation and its end (Herlihy & Wing 1990). A depth-first search over those moments (Wing & Gong 1993) that places an operation no
// earlier than the next end demands (Lowe 2017), remembers where it has been, and ends undecided rather than without end.

/**
 * One object. Its states may stand for several real ones at once: a step then keeps those that fit what was seen.
 * States of one key are the same to every later step.
 */
export interface Model<State, Op, Result> {
  readonly initial: State;
  /** The state after it; null: not possible in this state. `result` undefined: it took effect, and nobody knows what it answered. */
  step(state: State, op: Op, result: Result | undefined): State | null;
  keyOf(state: State): string;
  /** With this result it changes nothing, in any state. */
  isRead(op: Op, result: Result): boolean;
  /** Equal for operations that do the same to every state; asked of those with an unknown result. */
  effectOf(op: Op): string;
}

/** `invoked` and `ended` are positions or times in one order; of equals, invocations come first. */
export type Operation<Op, Result> =
  | {
      readonly outcome: "ok";
      readonly op: Op;
      readonly invoked: number;
      readonly ended: number;
      readonly result: Result;
    }
  /** Took effect at some moment after its invocation, or never. */
  | { readonly outcome: "unknown"; readonly op: Op; readonly invoked: number }
  /** Certainly without effect, and says nothing about the state. */
  | { readonly outcome: "failed" };

export type Verdict<Op, Result> =
  | { readonly kind: "linearizable" }
  /** No order explains the history up to the end of this operation. */
  | { readonly kind: "not linearizable"; readonly at: Done<Op, Result>; readonly states: readonly string[] }
  | { readonly kind: "undecided"; readonly reason: string };

type Done<Op, Result> = Extract<Operation<Op, Result>, { outcome: "ok" }>;
type Lost<Op, Result> = Extract<Operation<Op, Result>, { outcome: "unknown" }>;

export interface SearchBounds {
  /** Steps of the model and comparisons of remembered places. Default 20,000,000: about two seconds. */
  readonly workMax?: number;
  /** Places remembered. Default 500,000: about 150 MB. */
  readonly placesMax?: number;
}

/** One bit each in a number. */
const CONCURRENT_MAX = 31;
const STATES_TOLD_MAX = 5;
const NO_STEP = -1;

type Mark =
  | { readonly kind: "invoked"; readonly slot: number; readonly index: number }
  | { readonly kind: "ended"; readonly slot: number; readonly index: number }
  | { readonly kind: "lost"; readonly effect: number };

/** Somewhere in the search: before mark `at`, with these running operations done and these lost ones used up. */
interface Place {
  readonly at: number;
  /** Bit per slot: the operation that runs there has taken effect. */
  readonly done: number;
  /** Effects of lost operations, as often as used, ascending. */
  readonly used: readonly number[];
  readonly state: number;
}

export function checkLinearizability<State, Op, Result>(
  model: Model<State, Op, Result>,
  operations: readonly Operation<Op, Result>[],
  bounds: SearchBounds = {},
): Verdict<Op, Result> {
  // Where lost operations may take effect as often as one likes, there is little to remember: most of what is wrong shows already there.
  const eased = new Search(model, operations, { bounds, areLostSpent: false }).run();
  return eased.kind === "not linearizable"
    ? eased
    : new Search(model, operations, { bounds, areLostSpent: true }).run();
}

class Search<State, Op, Result> {
  readonly #model: Model<State, Op, Result>;
  readonly #workMax: number;
  readonly #placesMax: number;
  readonly #areLostSpent: boolean;
  readonly #done: readonly Done<Op, Result>[];
  readonly #isRead: readonly boolean[];
  /** One lost operation of each effect. */
  readonly #effects: readonly Lost<Op, Result>[];
  readonly #marks: readonly Mark[];
  /** Per mark: operation in each slot, -1 = none; and how many lost operations of each effect were invoked before it. */
  readonly #running: readonly (readonly number[])[];
  readonly #lost: readonly (readonly number[])[];
  readonly #states: State[] = [];
  readonly #stateIds = new Map<string, number>();
  readonly #steps = new Map<number, number>();
  /** Of each (mark, done, state): the sets of lost operations with which it was reached; none contains another one. */
  readonly #been = new Map<string, (readonly number[])[]>();
  #work = 0;
  #places = 0;
  #farthest = -1;
  #farthestStates = new Set<number>();

  constructor(
    model: Model<State, Op, Result>,
    operations: readonly Operation<Op, Result>[],
    how: { readonly bounds: SearchBounds; readonly areLostSpent: boolean },
  ) {
    this.#model = model;
    this.#workMax = how.bounds.workMax ?? 20_000_000;
    this.#placesMax = how.bounds.placesMax ?? 500_000;
    this.#areLostSpent = how.areLostSpent;
    this.#done = operations.filter((each) => each.outcome === "ok");
    this.#isRead = this.#done.map(({ op, result }) => model.isRead(op, result));
    const timeline = layOut(
      this.#done,
      operations.filter((each) => each.outcome === "unknown"),
      (op) => model.effectOf(op),
    );
    ({ effects: this.#effects, marks: this.#marks, running: this.#running, lost: this.#lost } = timeline);
  }

  run(): Verdict<Op, Result> {
    if (this.#running.some((slots) => slots.length > CONCURRENT_MAX))
      return { kind: "undecided", reason: `more than ${CONCURRENT_MAX} operations at once` };
    const open: Place[] = [];
    const first = this.#advance({ at: 0, done: 0, used: [], state: this.#stateId(this.#model.initial) });
    if (first === undefined) return { kind: "linearizable" };
    open.push(first);
    for (;;) {
      const place = open.pop();
      if (place === undefined) return this.#impossible();
      for (const next of this.#stepsFrom(place)) {
        const arrived = this.#advance(next);
        if (arrived === undefined) return { kind: "linearizable" };
        if (this.#isNew(arrived)) open.push(arrived);
      }
      if (this.#work > this.#workMax) return { kind: "undecided", reason: `more than ${this.#workMax} steps` };
      if (this.#places > this.#placesMax) return { kind: "undecided", reason: `more than ${this.#placesMax} places` };
    }
  }

  #impossible(): Verdict<Op, Result> {
    const mark = this.#marks[this.#farthest];
    const at = mark?.kind === "ended" ? this.#done[mark.index] : undefined;
    if (at === undefined) return { kind: "linearizable" };
    const states = [...this.#farthestStates].map((id) => this.#model.keyOf(this.#states[id] as State));
    return { kind: "not linearizable", at, states };
  }

  /** On to the next end of an operation that has not taken effect; undefined when there is none. */
  #advance(place: Place): Place | undefined {
    let { at, done } = place;
    done = this.#withReads(at, done, place.state);
    for (; ; at++) {
      const mark = this.#marks[at];
      if (mark === undefined) return undefined;
      if (mark.kind === "invoked") done = this.#withReads(at + 1, done, place.state);
      if (mark.kind !== "ended") continue;
      const bit = 1 << mark.slot;
      if ((done & bit) === 0) break;
      done &= ~bit;
    }
    if (at > this.#farthest) this.#farthestStates.clear();
    this.#farthest = Math.max(this.#farthest, at);
    if (at === this.#farthest && this.#farthestStates.size < STATES_TOLD_MAX) this.#farthestStates.add(place.state);
    return { ...place, at, done };
  }

  /** A read that fits is best placed at once: it takes no possibility away. */
  #withReads(at: number, done: number, state: number): number {
    let more = done;
    for (const [slot, index] of (this.#running[at] ?? []).entries()) {
      if (index < 0 || (more & (1 << slot)) !== 0 || this.#isRead[index] !== true) continue;
      if (this.#step(index, state) === state) more |= 1 << slot;
    }
    return more;
  }

  /** The last one is tried first: the operation whose end is due, then others that run, then lost ones. */
  #stepsFrom({ at, done, used, state }: Place): Place[] {
    const next: Place[] = [];
    for (const [effect, count] of (this.#lost[at] ?? []).entries()) {
      if (count === 0 || (this.#areLostSpent && count <= countOf(used, effect))) continue;
      const after = this.#step(this.#done.length + effect, state);
      if (after === NO_STEP || after === state) continue;
      next.push({ at, done, used: this.#areLostSpent ? inserted(used, effect) : used, state: after });
    }
    const mark = this.#marks[at];
    const due = mark?.kind === "ended" ? mark.slot : -1;
    const slots = (this.#running[at] ?? []).map((_, slot) => slot).filter((slot) => slot !== due);
    for (const slot of [...slots.reverse(), due]) {
      const index = this.#running[at]?.[slot] ?? -1;
      if (index < 0 || (done & (1 << slot)) !== 0) continue;
      const after = this.#step(index, state);
      if (after !== NO_STEP) next.push({ at, done: done | (1 << slot), used, state: after });
    }
    return next;
  }

  /** `which`: one that is done, or, behind those, an effect of lost ones. */
  #step(which: number, state: number): number {
    this.#work++;
    const key = which * 2 ** 26 + state;
    const known = this.#steps.get(key);
    if (known !== undefined) return known;
    const from = this.#states[state] as State;
    const done = this.#done[which];
    const lost = this.#effects[which - this.#done.length];
    const op = (done ?? lost)?.op as Op;
    const after = this.#model.step(from, op, done?.result);
    const id = after === null ? NO_STEP : this.#stateId(after);
    this.#steps.set(key, id);
    return id;
  }

  #stateId(state: State): number {
    const key = this.#model.keyOf(state);
    const known = this.#stateIds.get(key);
    if (known !== undefined) return known;
    this.#stateIds.set(key, this.#states.length);
    return this.#states.push(state) - 1;
  }

  /** Not new is also where somebody was who had used up fewer lost operations: he could do all that can be done from here. */
  #isNew({ at, done, used, state }: Place): boolean {
    const key = `${at} ${done} ${state}`;
    const been = this.#been.get(key);
    this.#work += 1 + (been?.length ?? 0);
    if (been?.some((other) => isWithin(other, used)) === true) return false;
    this.#places++;
    this.#been.set(key, [...(been ?? []).filter((other) => !isWithin(used, other)), used]);
    return true;
  }
}

function layOut<Op, Result>(
  done: readonly Done<Op, Result>[],
  lost: readonly Lost<Op, Result>[],
  effectOf: (op: Op) => string,
): {
  readonly effects: readonly Lost<Op, Result>[];
  readonly marks: readonly Mark[];
  readonly running: readonly (readonly number[])[];
  readonly lost: readonly (readonly number[])[];
} {
  const ids = new Map<string, number>();
  const effects: Lost<Op, Result>[] = [];
  const effectId = (one: Lost<Op, Result>): number => {
    const effect = effectOf(one.op);
    const known = ids.get(effect);
    if (known !== undefined) return known;
    ids.set(effect, effects.length);
    return effects.push(one) - 1;
  };
  const moments = [
    ...done.flatMap(({ invoked, ended }, index) => [
      { time: invoked, order: 0, kind: "invoked" as const, index },
      { time: ended, order: 1, kind: "ended" as const, index },
    ]),
    ...lost.map((one) => ({ time: one.invoked, order: 0, kind: "lost" as const, index: effectId(one) })),
  ].sort((left, right) => left.time - right.time || left.order - right.order);
  const marks: Mark[] = [];
  const slots: number[] = [];
  const counts = effects.map(() => 0);
  const running: number[][] = [];
  const counted: number[][] = [];
  for (const { kind, index } of moments) {
    running.push([...slots]);
    counted.push([...counts]);
    if (kind === "lost") {
      marks.push({ kind, effect: index });
      counts[index] = (counts[index] ?? 0) + 1;
      continue;
    }
    const free = slots.indexOf(kind === "ended" ? index : -1);
    const slot = free < 0 ? slots.length : free;
    marks.push({ kind, slot, index });
    slots[slot] = kind === "ended" ? -1 : index;
  }
  running.push([...slots]);
  counted.push([...counts]);
  return { effects, marks, running, lost: counted };
}

function countOf(used: readonly number[], effect: number): number {
  let count = 0;
  for (const each of used) if (each === effect) count++;
  return count;
}

function inserted(used: readonly number[], effect: number): readonly number[] {
  const at = used.findIndex((each) => each > effect);
  return at < 0 ? [...used, effect] : [...used.slice(0, at), effect, ...used.slice(at)];
}

/** Both ascending; as often as it is in the inner one, everything is in the outer one. */
function isWithin(inner: readonly number[], outer: readonly number[]): boolean {
  if (inner.length > outer.length) return false;
  let at = 0;
  for (const each of inner) {
    while (at < outer.length && (outer[at] as number) < each) at++;
    if (outer[at] !== each) return false;
    at++;
  }
  return true;
}
