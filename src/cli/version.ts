// The version of this build, from package.json beside dist/ and src/.
import { readFileSync } from "node:fs";
import { packageFile } from "../platform/package-files.ts";

function readVersion(): string {
  const text = readFileSync(packageFile("package.json"), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

export const VERSION = readVersion();
