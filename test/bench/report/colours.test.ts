// The colours of the charts, on both backgrounds: seen against them, and told apart, also by those who see no red, green or blue.
// Simulation: Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB; distance: CIE 1976.
import { describe, expect, it } from "vitest";
import { PAGE_STYLE } from "../../../src/bench/report/page-style.ts";

type Three = readonly [number, number, number];
type Matrix = readonly [Three, Three, Three];

const EYES: Readonly<Record<string, Matrix>> = {
  usual: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  "no red": [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  "no green": [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  "no blue": [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const channel = (value: number): number => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const linear = (hex: string): Three =>
  [1, 3, 5].map((at) => channel(Number.parseInt(hex.slice(at, at + 2), 16) / 255)) as unknown as Three;
const times = (row: Three, [r, g, b]: Three): number => row[0] * r + row[1] * g + row[2] * b;
const seen = (colour: Three, matrix: Matrix): Three =>
  matrix.map((row) => Math.min(Math.max(times(row, colour), 0), 1)) as unknown as Three;

function lab(colour: Three): Three {
  const bent = (value: number): number => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const x = bent(times([0.4124, 0.3576, 0.1805], colour) / 0.95047);
  const y = bent(times([0.2126, 0.7152, 0.0722], colour));
  const z = bent(times([0.0193, 0.1192, 0.9505], colour) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const distance = (one: Three, other: Three): number =>
  Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
const light = (hex: string): number => times([0.2126, 0.7152, 0.0722], linear(hex));
function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [light(one), light(other)].toSorted((left, right) => left - right);
  return (high + 0.05) / (low + 0.05);
}

/** Of the style sheet: the light ones stand first, the dark ones in what follows the system's wish. */
function palette(theme: "light" | "dark"): ReadonlyMap<string, string> {
  const text = theme === "light" ? PAGE_STYLE : PAGE_STYLE.slice(PAGE_STYLE.indexOf("prefers-color-scheme: dark"));
  const block = text.slice(text.indexOf("{ "), text.indexOf("\n}"));
  return new Map([...block.matchAll(/--([a-z-]+): (#[0-9a-f]{6})/g)].map(([, name = "", hex = ""]) => [name, hex]));
}

const LINES = ["blue", "orange", "green", "purple", "ochre", "grey"];

describe.each(["light", "dark"] as const)("%s", (theme) => {
  const colours = palette(theme);
  const hexOf = (name: string): string => colours.get(name) ?? expect.fail(`no colour ${name}`);

  it("letters are read, lines are seen", () => {
    for (const name of ["ink", "muted", "edge"])
      expect(contrast(hexOf(name), hexOf("surface")), name).toBeGreaterThan(4.5);
    for (const name of [...LINES, "quiet"]) expect(contrast(hexOf(name), hexOf("surface")), name).toBeGreaterThan(2.95);
  });

  it.each(Object.entries(EYES))("lines are told apart by eyes with: %s", (_, matrix) => {
    const labs = LINES.map((name) => lab(seen(linear(hexOf(name)), matrix)));
    for (const [index, one] of labs.entries())
      for (const [at, other] of labs.slice(index + 1).entries())
        expect(distance(one, other), `${LINES[index]} and ${LINES[index + 1 + at]}`).toBeGreaterThan(20);
  });
});

it("red and green of one lightness are not told apart without red: the measure can fail", () => {
  const [red, green] = ["#b0604a", "#6f7d3e"].map((hex) =>
    lab(seen(linear(hex), EYES["no red"] ?? expect.fail("no eyes"))),
  );
  if (red === undefined || green === undefined) throw new Error("no colours");
  expect(distance(red, green)).toBeLessThan(20);
});
