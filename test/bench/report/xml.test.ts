// The reader that the report's tests rely on refuses what is not well-formed.
import { expect, it } from "vitest";
import { elementsOf, parseXml, textOf } from "./xml.ts";

it("reads elements, attributes, text and entities", () => {
  const root = parseXml('<a x="1 &lt; 2"><b/>t &amp; &#39;<c y="">u</c></a>');
  expect(elementsOf(root).map(({ name }) => name)).toEqual(["a", "b", "c"]);
  expect(root.attributes.get("x")).toBe("1 < 2");
  expect(textOf(root)).toBe("t & 'u");
});

it.each([
  "<a>",
  "<a></b>",
  "<a><b></a></b>",
  "<a x=1/>",
  '<a x="1" x="2"/>',
  '<a x="<"/>',
  "<a>&nbsp;</a>",
  "<a>& b</a>",
  "<a/><b/>",
  '<a x="1"y="2"/>',
  "<a>\u0000</a>",
  "text",
])("refuses %s", (text) => {
  expect(() => parseXml(text)).toThrow();
});
