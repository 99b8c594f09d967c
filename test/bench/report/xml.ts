// A strict reader of XML, as far as the report needs it: what is not well-formed is an error with its place. Knows no entities but the five of XML,
// and numeric ones; no comments, no processing instructions.

export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly (XmlElement | string)[];
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const NAME = /[A-Za-z_][\w:.-]*/y;
const FORBIDDEN = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

export function parseXml(text: string): XmlElement {
  const reader = new Reader(text);
  const root = reader.element();
  if (reader.rest().trim() !== "") reader.fail("something after the end");
  return root;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    const match = FORBIDDEN.exec(text);
    if (match !== null) {
      this.#at = match.index;
      this.fail("a character that XML does not have");
    }
  }

  rest(): string {
    return this.#text.slice(this.#at);
  }

  fail(what: string): never {
    throw new Error(
      `${what} at ${this.#at}: ${JSON.stringify(this.#text.slice(Math.max(0, this.#at - 40), this.#at + 40))}`,
    );
  }

  #take(literal: string): void {
    if (!this.#text.startsWith(literal, this.#at)) this.fail(`no ${literal}`);
    this.#at += literal.length;
  }

  #name(): string {
    NAME.lastIndex = this.#at;
    const name = NAME.exec(this.#text)?.[0];
    if (name === undefined) return this.fail("no name");
    this.#at += name.length;
    return name;
  }

  #space(): boolean {
    const start = this.#at;
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
    return this.#at > start;
  }

  element(): XmlElement {
    this.#take("<");
    const name = this.#name();
    const attributes = this.#attributes();
    if (this.#text.startsWith("/>", this.#at)) {
      this.#at += 2;
      return { name, attributes, children: [] };
    }
    this.#take(">");
    const children: (XmlElement | string)[] = [];
    while (!this.#text.startsWith("</", this.#at)) {
      if (this.#at >= this.#text.length) this.fail(`${name} does not end`);
      children.push(this.#text[this.#at] === "<" ? this.element() : this.#characters("<"));
    }
    this.#take("</");
    this.#take(name);
    this.#space();
    this.#take(">");
    return { name, attributes, children };
  }

  #attributes(): Map<string, string> {
    const attributes = new Map<string, string>();
    for (let hasSpace = this.#space(); !/[/>]/.test(this.#text[this.#at] ?? ">"); hasSpace = this.#space()) {
      if (!hasSpace) this.fail("no space before an attribute");
      const name = this.#name();
      if (attributes.has(name)) this.fail(`${name} twice`);
      this.#take('="');
      attributes.set(name, this.#characters('"'));
      this.#take('"');
    }
    return attributes;
  }

  #characters(until: string): string {
    const end = this.#text.indexOf(until, this.#at);
    if (end < 0) this.fail(`no ${until} any more`);
    const raw = this.#text.slice(this.#at, end);
    if (raw.includes("<")) this.fail("< in an attribute");
    const text = raw.replace(/&([^;&]*);?/g, (whole, entity: string) => this.#entity(whole, entity));
    this.#at = end;
    return text;
  }

  #entity(whole: string, entity: string): string {
    if (!whole.endsWith(";")) this.fail(`& by itself: ${whole}`);
    const numeric = /^#(\d+)$/.exec(entity)?.[1];
    return numeric === undefined
      ? (ENTITIES[entity] ?? this.fail(`&${entity};`))
      : String.fromCodePoint(Number(numeric));
  }
}

export function elementsOf(root: XmlElement): XmlElement[] {
  return [root, ...root.children.flatMap((child) => (typeof child === "string" ? [] : elementsOf(child)))];
}

export function textOf(root: XmlElement): string {
  return root.children.map((child) => (typeof child === "string" ? child : textOf(child))).join("");
}
