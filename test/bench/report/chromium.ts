// A headless Chromium of this machine, where one is installed: CHROMIUM names it, else the usual names are looked for.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

export function findChromium(): string | undefined {
  const named = process.env["CHROMIUM"];
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const candidates =
    named === undefined ? folders.flatMap((folder) => NAMES.map((name) => join(folder, name))) : [named];
  return candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Without its sandbox, which needs more rights than a container has: it opens files that the tests have written. */
export function openChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking"] });
}
