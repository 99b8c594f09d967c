// A strict reader of the part of EDN that histories are written in: integers, booleans, strings, keywords, vectors and maps. Anything else is refused.

export interface Keyword {
  readonly keyword: string;
}
export type Edn = number | string | boolean | null | Keyword | readonly Edn[] | ReadonlyMap<string, Edn>;

/** Keys of a map: a keyword as ":name", a string as it is. */
export function readEdn(text: string): Edn {
  const reader = new Reader(text);
  const value = reader.value();
  reader.end();
  return value;
}

const TOKEN =
  /[\s,]*(?:("(?:[^"\\]|\\["\\nrtbf]|\\u[0-9a-fA-F]{4})*")|(-?(?:0|[1-9][0-9]*))(?=[\s,\]})]|$)|(:[a-z][a-z0-9?-]*)|(true|false|nil)(?=[\s,\]})]|$)|([[\]{}]))/y;

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): Edn {
    const [, string, integer, keyword, word, bracket] = this.#token();
    if (string !== undefined) return JSON.parse(string) as string;
    if (integer !== undefined) return Number(integer);
    if (keyword !== undefined) return { keyword: keyword.slice(1) };
    if (word !== undefined) return word === "nil" ? null : word === "true";
    if (bracket === "[") return this.#until("]");
    if (bracket === "{") return mapOf(this.#until("}"));
    throw new Error(`unexpected ${bracket} before ${this.#at} of ${this.#text}`);
  }

  end(): void {
    if (this.#at !== this.#text.length) throw new Error(`more after ${this.#at} of ${this.#text}`);
  }

  #until(end: string): Edn[] {
    const values: Edn[] = [];
    for (;;) {
      const before = this.#at;
      if (this.#token()[5] === end) return values;
      this.#at = before;
      values.push(this.value());
    }
  }

  #token(): RegExpExecArray {
    TOKEN.lastIndex = this.#at;
    const match = TOKEN.exec(this.#text);
    if (match === null) throw new Error(`no EDN at ${this.#at} of ${this.#text}`);
    this.#at = TOKEN.lastIndex;
    return match;
  }
}

function mapOf(values: readonly Edn[]): ReadonlyMap<string, Edn> {
  if (values.length % 2 === 1) throw new Error("a map with a key without a value");
  const map = new Map<string, Edn>();
  for (let at = 0; at < values.length; at += 2) {
    const key = values[at];
    const name =
      typeof key === "string"
        ? key
        : typeof key === "object" && key !== null && "keyword" in key
          ? `:${key.keyword}`
          : undefined;
    const value = values[at + 1];
    if (name === undefined || value === undefined || map.has(name))
      throw new Error("a map's key twice, or of another kind");
    map.set(name, value);
  }
  return map;
}

/** An operation, its shape checked. */
export interface EdnOp {
  readonly index: number;
  readonly time: number;
  readonly process: number;
  readonly type: "invoke" | "ok" | "fail" | "info";
  readonly f: "send" | "poll" | "assign";
  readonly value: readonly Edn[];
}

export function readOp(line: string): EdnOp {
  const map = readEdn(line);
  if (!(map instanceof Map)) throw new Error(`no operation: ${line}`);
  const integer = (name: string): number => {
    const value: unknown = map.get(name);
    if (typeof value !== "number") throw new Error(`no integer ${name}: ${line}`);
    return value;
  };
  const word = <Word extends string>(name: string, words: readonly Word[]): Word => {
    const value = map.get(name) as Keyword | undefined;
    const found = words.find((known) => known === value?.keyword);
    if (found === undefined) throw new Error(`no ${name}: ${line}`);
    return found;
  };
  const value: unknown = map.get(":value");
  if (!Array.isArray(value)) throw new Error(`no :value: ${line}`);
  return {
    ...{ index: integer(":index"), time: integer(":time"), process: integer(":process"), value },
    type: word(":type", ["invoke", "ok", "fail", "info"]),
    f: word(":f", ["send", "poll", "assign"]),
  };
}
