// The README's commands, run in order, in a copy of the repository, with the real command line and a real node.
import { spawn } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { delimiter, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { readmeScript } from "./readme-shell.ts";
import { copyOf, needsBuild, plant, read, skipUnless } from "./tree.ts";

const README_PORTS = [7070, 7071, 7072];
const LIMIT_MS = 240_000;

let root = "";

afterEach(async () => {
  if (root === "") return;
  await shell("ottla cluster down || true\n");
  rmSync(root, { recursive: true, force: true });
  root = "";
});

const portIsFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
      .once("error", () => resolve(false))
      .listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });

/** Runs a script in the copy. Its output goes to a pipe, its input is empty. */
function shell(script: string): Promise<{ code: number | null; output: string }> {
  const env = { ...process.env, PATH: `${join(root, ".bin")}${delimiter}${process.env["PATH"] ?? ""}`, CI: "1" };
  const child = spawn("bash", ["-e", "-c", script], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: LIMIT_MS,
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  // "exit", not "close": a node that was left running may hold the pipes open.
  return new Promise((resolve) => {
    child.on("exit", (code) => {
      setImmediate(() => {
        child.stdout.destroy();
        child.stderr.destroy();
        resolve({ code, output });
      });
    });
  });
}

describe("README.md", () => {
  it(
    "has commands, and each runs as it stands there",
    async (context) => {
      const { blocks, script, notices } = readmeScript(read("README.md"));
      expect(blocks).toBeGreaterThan(0);
      expect(script).toContain("npm start -- --detach");
      needsBuild(context);
      const free = await Promise.all(README_PORTS.map(portIsFree));
      skipUnless(context, !free.includes(false), `one of the ports ${README_PORTS.join(", ")} is taken here`);
      for (const notice of notices) console.log(notice);
      const configs = ["base", "build", "core", "node"].map((name) => `tsconfig.${name}.json`);
      root = copyOf([
        "package.json",
        "README.md",
        "cluster.example.json",
        "src",
        "dist",
        "scripts/build.ts",
        ...configs,
      ]);
      plant(root, ".bin/ottla", `#!/bin/sh\nexec "${process.execPath}" "${root}/dist/cli/main.js" "$@"\n`);
      chmodSync(join(root, ".bin/ottla"), 0o755);
      const { code, output } = await shell(script);
      expect(output, "the README's commands").not.toMatch(/^error/m);
      expect({ code, output: code === 0 ? "" : output }).toEqual({ code: 0, output: "" });
    },
    LIMIT_MS + 20_000,
  );

  it("without a block of commands is noticed", () => {
    expect(readmeScript("# Ottla\n\n```ts\nconnect();\n```\n").blocks).toBe(0);
  });

  it("is cut into commands: installs are left out with a notice, comments dropped, the rest kept", () => {
    const text =
      '```sh\nnpm ci && npm start   # stays\nnpm start -- --detach && ottla topic ls\nottla produce "#1" -k a \\\n  -c b\n```\n';
    const { script, notices } = readmeScript(text);
    expect(notices).toHaveLength(2);
    expect(script.split("\n").filter((line) => !line.startsWith("echo"))).toEqual([
      "set -eo pipefail",
      "npm start -- --detach && ottla topic ls",
      'ottla produce "#1" -k a    -c b',
      "",
    ]);
  });
});
