// The version of this build, from package.json beside dist/ and src/.
import { readFileSync } from "node:fs";

function readVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

export const VERSION = readVersion();
