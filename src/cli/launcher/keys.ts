// Keys typed at the live table, as actions: a letter, for most of them followed by the node's number. Pure.

export type NodeKey = "kill" | "start" | "pause" | "logs";

/** What concerns the cluster, not only what is shown of it. */
export type ClusterKey =
  | { readonly kind: "kill" | "start" | "pause"; readonly nodeId: number }
  | { readonly kind: "quit" }
  /** Ctrl-C: in raw mode it is a key and no signal. */
  | { readonly kind: "interrupt" };

export type KeyAction =
  | ClusterKey
  | { readonly kind: "logs"; readonly nodeId: number }
  | { readonly kind: "close-logs" }
  | { readonly kind: "redraw" };

const VERBS: Readonly<Record<string, NodeKey>> = { k: "kill", r: "start", p: "pause", l: "logs" };
const ASKS: Readonly<Record<NodeKey, string>> = {
  kill: "kill -9 which node",
  start: "start or restart which node",
  pause: "pause which node, or let it go on",
  logs: "log of which node",
};
const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const CTRL_L = "\u000c";
const ESCAPE = "\u001b";
const BACKSPACE = ["\u0008", "\u007f"];

export class KeyReader {
  readonly #nodeIds: readonly string[];
  #verb: NodeKey | undefined;
  #digits = "";
  /** What was typed last and is no node. */
  #unknown = "";

  constructor(nodeIds: readonly number[]) {
    this.#nodeIds = nodeIds.map(String);
  }

  /** What is asked for now; null: a letter. */
  get prompt(): string | null {
    if (this.#verb === undefined) return null;
    const refusal = this.#unknown === "" ? "" : `no node ${this.#unknown}: `;
    return `${refusal}${ASKS[this.#verb]} (${this.#nodeIds.join(", ")}; q or Esc: none)? ${this.#digits}`;
  }

  /** No question any more. */
  cancel(): void {
    this.#done();
  }

  /** What a person typed since the last call. */
  read(typed: string): KeyAction[] {
    // Arrows and other keys that send a sequence mean nothing here.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
    const keys = typed.replace(/\u001b[[O][0-9;]*[A-Za-z~]/g, "");
    return [...keys].flatMap((key) => this.#key(key) ?? []);
  }

  #key(key: string): KeyAction | undefined {
    if (key === CTRL_C) {
      this.#done();
      return { kind: "interrupt" };
    }
    if (key === CTRL_L) return { kind: "redraw" };
    if (this.#verb !== undefined) return this.#target(key, this.#verb);
    if (key === "q" || key === CTRL_D) return { kind: "quit" };
    if (key === ESCAPE) return { kind: "close-logs" };
    const verb = VERBS[key.toLowerCase()];
    if (verb === undefined) return undefined;
    const [only] = this.#nodeIds;
    if (this.#nodeIds.length === 1 && only !== undefined) return { kind: verb, nodeId: Number(only) };
    this.#verb = verb;
    this.#digits = "";
    return undefined;
  }

  /** The number of a node is taken as soon as no other begins with it; Enter takes it before. */
  #target(key: string, verb: NodeKey): KeyAction | undefined {
    if (key === ESCAPE || key === CTRL_D || key.toLowerCase() === "q") return this.#done();
    this.#unknown = "";
    if (BACKSPACE.includes(key)) {
      this.#digits = this.#digits.slice(0, -1);
      return undefined;
    }
    const isEnter = key === "\r" || key === "\n";
    const digits = isEnter ? this.#digits : this.#digits + key;
    const candidates = this.#nodeIds.filter((nodeId) => nodeId.startsWith(digits));
    const isTaken = candidates.includes(digits) && (isEnter || candidates.length === 1);
    if (isTaken) {
      this.#done();
      return { kind: verb, nodeId: Number(digits) };
    }
    if (isEnter) return this.#done();
    // A letter in place of a number is another verb: whoever changes his mind need not press Esc.
    if (VERBS[key] !== undefined) this.#verb = VERBS[key];
    else if (candidates.length > 0) this.#digits = digits;
    else if (key >= " ") this.#unknown = digits;
    return undefined;
  }

  #done(): undefined {
    this.#verb = undefined;
    this.#digits = "";
    this.#unknown = "";
  }
}
