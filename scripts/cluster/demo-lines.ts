// The lines of the demonstration: written to a file, and compared as `sort` does.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createRng } from "../../src/base/rng.ts";

/** Each line is there once, and none is the other's beginning. */
export async function writeLines(file: string, count: number): Promise<void> {
  const rng = createRng(count);
  const out = createWriteStream(file);
  for (let number = 0; number < count; number++) {
    const line = `${String(number).padStart(9, "0")} ${rng.below(2 ** 32).toString(16)} ${"x".repeat(rng.below(40))}.\n`;
    if (!out.write(line)) await once(out, "drain");
  }
  out.end();
  await once(out, "close");
}

/** SHA-256 of what `sort` gives. */
export async function sortedHash(file: string): Promise<string> {
  const child = spawn("sort", [file], { env: { ...process.env, LC_ALL: "C" }, stdio: ["ignore", "pipe", "inherit"] });
  const hash = createHash("sha256");
  child.stdout.on("data", (chunk: Buffer) => hash.update(chunk));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`sort ${file} ended with ${code}`);
  return hash.digest("hex");
}
