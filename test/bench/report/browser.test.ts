// The report as a reader sees it, in a real browser: no error, no request but for the file itself, nothing wider than the window or outside of its
// chart, letters on letters nowhere; on a desk, on a phone, dark and on paper. Skipped with a notice where no Chromium is installed.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { renderReport } from "../../../src/bench/report/report.ts";
import { findChromium, openChromium } from "./chromium.ts";
import { SAMPLES } from "./samples.ts";

const executable = findChromium();
if (executable === undefined)
  console.warn(
    "SKIPPED: the report in a browser: no chromium on the PATH (apt-get install chromium, or CHROMIUM=/path)",
  );

const WINDOWS = [
  { width: 1_280, height: 900, colorScheme: "light" },
  { width: 1_280, height: 900, colorScheme: "dark" },
  { width: 390, height: 844, colorScheme: "light" },
] as const;
const [DESK] = WINDOWS;
const folder = mkdtempSync(join(tmpdir(), "ottla-report-test-"));
let browser: Browser | undefined;

beforeAll(async () => {
  if (executable !== undefined) browser = await openChromium(executable);
});
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Opened {
  readonly page: Page;
  readonly complaints: string[];
  readonly requests: string[];
}

async function open(html: string): Promise<Opened> {
  if (browser === undefined) throw new Error("no browser");
  const file = join(folder, "report.html");
  writeFileSync(file, html);
  const { colorScheme, ...viewport } = DESK;
  const context = await browser.newContext({ viewport, colorScheme });
  const page = await context.newPage();
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(pathToFileURL(file).href);
  return { page, complaints, requests };
}

/** In the page: what sticks out of the window, letters that stick out of their chart, and letters that lie on others. */
const LOOK = `(() => {
  const root = document.documentElement;
  const faults = [];
  if (root.scrollWidth > root.clientWidth) faults.push("the page is " + root.scrollWidth + " wide");
  for (const chart of document.querySelectorAll("svg.chart")) {
    if (chart.getBoundingClientRect().width === 0) continue;
    const bounds = chart.parentElement.getBoundingClientRect();
    const boxes = [...chart.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([text, box], index) => {
      if (box.left < bounds.left - 1 || box.right > bounds.right + 1 || box.top < bounds.top || box.bottom > bounds.bottom)
        faults.push("outside of its figure: " + text);
      for (const [other, near] of boxes.slice(index + 1)) {
        const wide = Math.min(box.right, near.right) - Math.max(box.left, near.left);
        const high = Math.min(box.bottom, near.bottom) - Math.max(box.top, near.top);
        if (wide > 1 && high > box.height * 0.35) faults.push("on each other: " + text + " | " + other);
      }
    });
  }
  return faults;
})()`;

describe.skipIf(executable === undefined)("in Chromium", () => {
  it.each(Object.entries(SAMPLES))("%s", async (_, results) => {
    const { page, complaints, requests } = await open(renderReport(results));
    for (const { colorScheme, ...viewport } of WINDOWS) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      expect(await page.evaluate(LOOK), `${viewport.width} px, ${colorScheme}`).toEqual([]);
    }
    expect(complaints).toEqual([]);
    expect(requests).toEqual([page.url()]);
    await page.context().close();
  });

  it("tells figures under the pointer, and is dark by choice", async () => {
    const { page, complaints } = await open(renderReport(SAMPLES["acks levels"] ?? []));
    const colour = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const before = await colour();
    await page.click("#theme");
    expect(await colour()).not.toBe(before);
    await page.locator("svg.wide .hint").first().hover();
    expect(await page.locator("#tip").textContent()).toContain("acks=0");
    expect(await page.locator("#tip").isVisible()).toBe(true);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("is read without its script, and on paper", async () => {
    if (browser === undefined) throw new Error("no browser");
    const file = join(folder, "plain.html");
    writeFileSync(file, renderReport(SAMPLES["acks levels"] ?? []));
    const context = await browser.newContext({ javaScriptEnabled: false, colorScheme: "dark" });
    const page = await context.newPage();
    await page.goto(pathToFileURL(file).href);
    expect(await page.locator("#theme").isVisible()).toBe(false);
    expect(await page.locator("svg.chart.wide").first().isVisible()).toBe(true);
    expect((await page.pdf({ format: "A4" })).length).toBeGreaterThan(10_000);
    await context.close();
  });

  it("finds letters on letters, and what is too wide", async () => {
    const text = (x: number, y: number) => `<text x="${x}" y="${y}">some words</text>`;
    const chart = `<figure><svg class="chart" width="300" height="50">${text(10, 20)}${text(30, 22)}${text(290, 40)}</svg></figure>`;
    const { page } = await open(
      `<style>figure{width:300px;margin:0}svg{overflow:visible}</style>${chart}<div style="width:2000px">x</div>`,
    );
    const found = (await page.evaluate(LOOK)) as string[];
    const kinds = found.map((fault) => fault.replace(/:.*|\d+/g, "").trim());
    expect(kinds).toEqual(["the page is  wide", "on each other", "outside of its figure"]);
    await page.context().close();
  });

  it("notices a request and an error", async () => {
    const { page, complaints, requests } = await open(
      `<img src="missing.png"><script>throw new Error("planted")</script>`,
    );
    expect(complaints.join("\n")).toContain("planted");
    expect(requests).toHaveLength(2);
    await page.context().close();
  });
});
