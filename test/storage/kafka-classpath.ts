// Kafka's own classes, if they can be had here: from Maven's local repository, never from the network (`npm run kafka-tools` puts them there).
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const TOOLS = fileURLToPath(new URL("../../scripts/kafka-tools/", import.meta.url));
const TIMEOUT_MS = 120_000;

function findClassPath(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "ottla-kafka-"));
  try {
    execFileSync("java", ["-version"], { stdio: "ignore" });
    const output = join(folder, "class-path");
    const goal = ["dependency:build-classpath", `-Dmdep.outputFile=${output}`];
    execFileSync("mvn", ["-o", "-q", "-B", "-f", join(TOOLS, "pom.xml"), ...goal], {
      stdio: "ignore",
      timeout: TIMEOUT_MS,
    });
    return readFileSync(output, "utf8").trim();
  } catch {
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const classPath = findClassPath();
export const hasKafka = classPath !== undefined;
if (!hasKafka)
  console.warn("NOT RUN: Kafka's dump tool on our files: it needs java, Maven and `npm run kafka-tools` once");

/** What a class of Kafka's, or a source of ours, says: both streams. */
export function runJava(
  main: string,
  args: readonly string[],
): { readonly code: number | null; readonly said: string } {
  const name = main.endsWith(".java") ? join(TOOLS, main) : main;
  const found = spawnSync("java", ["-Xmx256m", name, ...args], {
    env: { ...process.env, CLASSPATH: classPath },
    encoding: "utf8",
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  return { code: found.status, said: `${found.stdout}${found.stderr}` };
}
