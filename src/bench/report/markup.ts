// Elements of HTML and SVG as text. What is not made by `element` is escaped: a label from a file cannot become markup.

export interface Markup {
  readonly markup: string;
}

export type Child = Markup | string | number | undefined | false | readonly Child[];
export type Attributes = Readonly<Record<string, string | number | undefined | false>>;

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
/** Characters that no XML document may hold, escaped or not. */
const FORBIDDEN = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

export function escapeText(text: string): string {
  return text.replace(FORBIDDEN, "\ufffd").replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

/** A coordinate: finite, with as many digits as a screen shows. */
export function coordinate(value: number): string {
  if (!Number.isFinite(value)) throw new Error(`a chart was to be drawn at ${value}`);
  const text = value.toFixed(2).replace(/\.?0+$/, "");
  return text === "-0" ? "0" : text;
}

function attributeText(name: string, value: string | number | undefined | false): string {
  if (value === undefined || value === false) return "";
  return ` ${name}="${typeof value === "number" ? coordinate(value) : escapeText(value)}"`;
}

function childText(child: Child): string {
  if (child === undefined || child === false) return "";
  if (typeof child === "string") return escapeText(child);
  if (typeof child === "number") return coordinate(child);
  return "markup" in child ? child.markup : child.map(childText).join("");
}

/** `class` is a name like any other. Without children it closes itself only where HTML and SVG both allow it. */
export function element(name: string, attributes: Attributes, ...children: readonly Child[]): Markup {
  const head = `<${name}${Object.entries(attributes)
    .map(([key, value]) => attributeText(key, value))
    .join("")}`;
  const inner = children.map(childText).join("");
  return { markup: inner === "" && CLOSES_ITSELF.has(name) ? `${head}/>` : `${head}>${inner}</${name}>` };
}

const CLOSES_ITSELF: ReadonlySet<string> = new Set([
  ...["path", "line", "rect", "circle", "polyline"],
  ...["meta", "link", "br"],
]);

export const join = (...children: readonly Child[]): Markup => ({ markup: children.map(childText).join("") });

/** Of this program, never of a file. */
export const verbatim = (markup: string): Markup => ({ markup });
