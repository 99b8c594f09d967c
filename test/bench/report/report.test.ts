// The report as a document: well-formed, nothing in it that a file could have smuggled in, every figure finite, every label there.
import fc from "fast-check";
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { renderReport } from "../../../src/bench/report/report.ts";
import type { BenchResult } from "../../../src/bench/result.ts";
import { acksRuns, bareRun, failoverRuns, fault, labelsOf, resultOf, runOf, SAMPLES } from "./samples.ts";
import { elementsOf, parseXml, textOf, type XmlElement } from "./xml.ts";

const SCRIPT = /<script>([\s\S]*?)<\/script>/;

/** Everything but the script, which is no XML. */
function pageOf(results: readonly BenchResult[]): XmlElement {
  const html = renderReport(results);
  expect(html.startsWith("<!doctype html>\n<html")).toBe(true);
  expect(html.match(/<script/g)).toHaveLength(1);
  return parseXml(html.replace("<!doctype html>\n", "").replace(SCRIPT, "<script></script>"));
}

const chartsOf = (page: XmlElement): XmlElement[] =>
  elementsOf(page).filter(
    ({ name, attributes }) => name === "svg" && attributes.get("class")?.startsWith("chart") === true,
  );

const charted = (page: XmlElement, format: string): string =>
  chartsOf(page)
    .filter(({ attributes }) => attributes.get("class") === `chart ${format}`)
    .map(textOf)
    .join("\n");

const PLACES = new Set(["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"]);
const SIZES = new Set(["width", "height", "r"]);

/** Attributes that would draw nothing, or something at no place. */
function undrawable(page: XmlElement): string[] {
  return chartsOf(page).flatMap((chart) =>
    elementsOf(chart).flatMap(({ name, attributes }) =>
      [...attributes]
        .filter(
          ([key, value]) =>
            (key !== "aria-label" && /NaN|Infinity|undefined|null/.test(value)) ||
            (PLACES.has(key) && !/^-?\d+(\.\d+)?$/.test(value)) ||
            (SIZES.has(key) && Number(value) < 0) ||
            (key === "d" && !/^[MLHVhlZ\d .-]+$/.test(value)),
        )
        .map(([key, value]) => `${name} ${key}="${value}"`),
    ),
  );
}

it("a figure at no place is found", () => {
  const page = parseXml('<svg class="chart wide"><rect x="NaN" width="-1"/><path d="M1 2LNaN 3"/></svg>');
  expect(undrawable(page)).toEqual(['rect x="NaN"', 'rect width="-1"', 'path d="M1 2LNaN 3"']);
});

describe.each(Object.entries(SAMPLES))("%s", (_, results) => {
  const page = pageOf(results);

  it("is well-formed, and each of its figures is drawn for a wide and for a narrow window", () => {
    expect(undrawable(page)).toEqual([]);
    const formats = chartsOf(page).map(({ attributes }) => attributes.get("class"));
    expect(formats.filter((format) => format === "chart wide")).toHaveLength(formats.length / 2);
    for (const chart of chartsOf(page)) expect(chart.attributes.get("aria-label")).not.toBe("");
  });

  it("names every fault, run and command", () => {
    const text = textOf(page);
    for (const { command, runs } of results) {
      expect(text).toContain(command);
      for (const { faults, errors, remarks } of runs) {
        for (const { label } of faults) expect(text).toContain(label);
        for (const code of Object.keys(errors)) expect(text).toContain(code);
        for (const remark of remarks) expect(text).toContain(remark);
      }
    }
  });
});

describe("what is drawn", () => {
  it("latency over time: each series, and the faults by name where there is room, else by number", () => {
    const page = pageOf([
      resultOf([runOf({ faults: [fault("leader killed", 5_000, 9_000), fault("disk full", 15_000, 18_000)] })]),
    ]);
    for (const format of ["wide", "narrow"])
      for (const name of ["p50", "p99", "max"]) expect(charted(page, format)).toContain(name);
    const labels = (format: string): string[] =>
      chartsOf(page)
        .filter(({ attributes }) => attributes.get("class") === `chart ${format}`)
        .flatMap(elementsOf)
        .filter(({ attributes }) => attributes.get("class")?.startsWith("band-label") === true)
        .map(textOf);
    expect(labels("wide")).toEqual(["leader killed", "disk full"]);
    expect(labels("narrow")).toEqual(["1", "2"]);
  });

  it("acks levels one below the other, each with its throughput", () => {
    const text = charted(pageOf([resultOf(acksRuns())]), "wide");
    for (const part of ["acks=0", "acks=1", "acks=all", "60 MB/s", "45 MB/s", "30 MB/s"]) expect(text).toContain(part);
  });

  it("a curve for each run, with the nines on its axis", () => {
    const page = pageOf([resultOf(acksRuns())]);
    const text = charted(page, "wide");
    for (const nine of ["90 %", "99 %", "99.9 %", "99.99 %"]) expect(text).toContain(nine);
    const curves = elementsOf(page).filter(
      ({ name, attributes }) => name === "path" && attributes.get("class")?.startsWith("line acks-") === true,
    );
    // Twice each, and in the key.
    expect(curves).toHaveLength(9);
  });

  it("the longest pause of each fault beside what is allowed", () => {
    const page = pageOf([resultOf(failoverRuns())]);
    const gaps = elementsOf(page).filter(
      ({ name, attributes }) => name === "circle" && attributes.get("class") === "gap",
    );
    // A wide and a narrow chart of two runs of three faults, and a dot in each legend.
    expect(gaps).toHaveLength(2 * (2 * 3 + 1));
    expect(textOf(page)).toContain("301 ms, at most 302 ms");
  });

  it("what differs between results tells their runs apart, what does not is said once", () => {
    const text = textOf(pageOf(SAMPLES["two commits"] ?? []));
    expect(text).toContain("acks=all · commit 012345678");
    expect(text).toContain("acks=all · commit ba9876543");
    expect(text).toContain("1 of 2 benchmarks were ended early");
    expect(text.split("1 KiB records")).toHaveLength(2);
  });

  it("what is said of several runs once, with whom it is about", () => {
    const [one, other, third] = acksRuns();
    if (one === undefined || other === undefined || third === undefined) throw new Error("no runs");
    const runs = [
      { ...one, remarks: ["a busy machine", "late"], latencyOf: "until the hand-over" },
      { ...other, remarks: ["a busy machine"] },
      { ...third, remarks: ["a busy machine", "late"] },
    ];
    const text = textOf(pageOf([resultOf(runs)]));
    expect(text.split("a busy machine")).toHaveLength(2);
    expect(text).toContain("all runs: a busy machine");
    expect(text).toContain("acks=0; acks=all: late");
    expect(text).toContain("Acks=0: latency is until the hand-over");
    expect(text).toContain("What counts as latency is not the same for all");
  });

  it("nothing, where nothing was measured: it says so", () => {
    expect(textOf(pageOf([resultOf([])]))).toContain("Nothing was measured");
    const bare = pageOf([resultOf([bareRun()])]);
    expect(chartsOf(bare)).toEqual([]);
    expect(textOf(bare)).toContain("bare");
  });
});

describe("what comes from a file", () => {
  const EVIL = `</title></script><script>alert(1)</script><img src=x onerror="alert(2)">'"&]]>\u0000\ud800`;

  it("stays text wherever it stands", () => {
    const evil = resultOf(
      [
        runOf({
          name: EVIL,
          labels: labelsOf({ verb: EVIL, acks: EVIL, [EVIL]: EVIL }),
          latencyOf: EVIL,
          faults: [fault(EVIL, 1_000, 2_000, 5)],
          errors: { [EVIL]: 1 },
          remarks: [EVIL],
          processes: [{ atMs: 0, process: EVIL, rssBytes: 1, openFiles: 1 }],
        }),
        runOf({ name: "other" }),
      ],
      { commit: EVIL, startedAt: EVIL, command: EVIL, machine: { ...resultOf([]).machine, cpu: EVIL, kernel: EVIL } },
    );
    const page = pageOf([evil]);
    expect(undrawable(page)).toEqual([]);
    const names = new Set(elementsOf(page).map(({ name }) => name));
    expect(
      [...names].filter((name) => ["img", "iframe", "a", "object", "embed", "use", "image"].includes(name)),
    ).toEqual([]);
    const attributes = elementsOf(page).flatMap((element) => [...element.attributes.keys()]);
    expect(attributes.filter((name) => name.startsWith("on"))).toEqual([]);
    expect(textOf(page)).toContain("alert(2)");
  });

  it("may be any number", () => {
    const number = fc.oneof(
      fc.constantFrom(0, 1, -1, 1e-9, 1e300, Number.NaN, Infinity),
      fc.double({ noNaN: true, min: 0, max: 1e9 }),
    );
    const known = fc.option(number);
    const latency = fc.record({
      p50: number,
      p90: number,
      p99: number,
      p999: number,
      max: number,
      histogram: fc.constant(""),
    });
    const entry = fc.record({ atMs: number, records: number, p50Ms: known, p99Ms: known, maxMs: known });
    const span = fc.record({ atMs: number, untilMs: number, label: fc.string(), gapMs: known, allowedGapMs: known });
    const run = fc.record({
      name: fc.string(),
      records: number,
      seconds: number,
      mbPerSecond: number,
      latencyMs: fc.option(latency),
      percentiles: fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), number), { maxLength: 5 }),
      timeline: fc.array(entry, { maxLength: 5 }),
      faults: fc.array(span, { maxLength: 4 }),
      partitions: known,
      acks: fc.constantFrom("0", "1", "all", null),
    });
    fc.assert(
      fc.property(fc.array(run, { maxLength: 4 }), known, (runs, rawDiskMBs) => {
        const result = resultOf(
          runs.map(({ partitions, acks, ...rest }) => runOf({ ...rest, labels: labelsOf({ partitions, acks }) })),
          { limits: { rawDiskMBs, rawSocketMBs: null } },
        );
        expect(undrawable(pageOf([result]))).toEqual([]);
      }),
      { numRuns: 80 },
    );
  });
});

describe("the page", () => {
  const html = renderReport(SAMPLES["acks levels"] ?? []);

  it("allows itself its one script, and nothing from anywhere", () => {
    const script = SCRIPT.exec(html)?.[1] ?? "";
    const hash = createHash("sha256").update(script).digest("base64");
    const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1]?.replaceAll("&#39;", "'");
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain(`script-src 'sha256-${hash}'`);
    expect(html.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:|url\(|@import|@font-face/);
  });

  it("is the same for the same results", () => {
    expect(renderReport(SAMPLES["acks levels"] ?? [])).toBe(html);
  });

  it("stays small: a chart of an hour is drawn of as many windows as one of a minute", () => {
    const hour = Array.from({ length: 3_600 }, (_, second) => ({
      atMs: second * 1_000,
      records: 1,
      p50Ms: 1,
      p99Ms: 2,
      maxMs: second === 1_234 ? 777 : 3,
    }));
    const long = renderReport([resultOf([runOf({ timeline: hour })])]);
    expect(long.length).toBeLessThan(200_000);
    expect(long).toContain("max 777 ms");
  });
});
