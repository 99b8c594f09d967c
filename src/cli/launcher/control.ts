// The launcher's door for other shells: a socket in the file system that only its owner may use. One request and one answer per
// connection, each one line of JSON. Signals do not come this way: a shell sends them itself, after it made sure of the process.
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, connect as dial, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { EXIT } from "../../model/exit-codes.ts";
import { CommandFailure, type Failure, failureOf } from "../failure.ts";
import type { NodeState } from "../state-file.ts";

const VERSION = 1;
/** The kernel takes at most 107 bytes as the path of a socket. */
const PATH_BYTES_MAX = 100;
const LINE_BYTES_MAX = 64 * 1024;
const CONNECTIONS_MAX = 16;
const IDLE_MS = 10_000;
const TEMPORARY_PREFIX = "ottla-launcher-";

export interface ControlRequest {
  readonly version: typeof VERSION;
  /** start: what does not run; restart: in order, then again. The launcher is the parent of both. */
  readonly kind: "start" | "restart";
  readonly nodeIds: readonly number[];
}

export type ControlAnswer =
  | { readonly kind: "done"; readonly nodes: readonly NodeState[] }
  | { readonly kind: "failed"; readonly failure: Failure };

export type ControlHandler = (request: ControlRequest) => Promise<readonly NodeState[]>;

export interface ControlDoor {
  readonly path: string;
  close(): void;
}

/** In the cluster's directory, or where that cannot hold a socket (a long path, some file systems) in a private temporary one. */
export async function openControl(dataDir: string, handle: ControlHandler): Promise<ControlDoor> {
  const near = join(dataDir, "launcher.sock");
  if (Buffer.byteLength(near) <= PATH_BYTES_MAX) {
    try {
      return await listen(near, handle);
    } catch {
      // Tried elsewhere.
    }
  }
  return await listen(join(mkdtempSync(join(tmpdir(), TEMPORARY_PREFIX)), "launcher.sock"), handle);
}

/** Also what a launcher that was killed left behind. */
export function removeSocket(path: string): void {
  rmSync(path, { force: true });
  const folder = dirname(path);
  if (dirname(folder) === tmpdir() && folder.startsWith(join(tmpdir(), TEMPORARY_PREFIX)))
    rmSync(folder, { recursive: true, force: true });
}

async function listen(path: string, handle: ControlHandler): Promise<ControlDoor> {
  rmSync(path, { force: true });
  const server = createServer((socket) => serve(socket, handle));
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // Nobody but the owner gets in, also in the moment before chmod: the directory of the file decides who may look for it.
    const umask = process.umask(0o177);
    server.listen(path, resolve);
    process.umask(umask);
  });
  chmodSync(path, 0o600);
  return { path, close: () => closeDoor(server, path) };
}

function closeDoor(server: Server, path: string): void {
  server.close();
  removeSocket(path);
}

function serve(socket: Socket, handle: ControlHandler): void {
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  readLine(socket).then(
    async (line) => {
      // Doing it may take longer than sending it.
      socket.setTimeout(0);
      socket.end(`${JSON.stringify(await answerTo(line, handle))}\n`);
    },
    () => socket.destroy(),
  );
}

async function answerTo(line: string, handle: ControlHandler): Promise<ControlAnswer> {
  try {
    return { kind: "done", nodes: await handle(parseRequest(line)) };
  } catch (thrown) {
    return { kind: "failed", failure: failureOf(thrown) };
  }
}

function parseRequest(line: string): ControlRequest {
  const request = JSON.parse(line) as Partial<ControlRequest> | null;
  const isKnown = request?.version === VERSION && (request.kind === "start" || request.kind === "restart");
  if (!isKnown || !Array.isArray(request.nodeIds) || !request.nodeIds.every(Number.isSafeInteger))
    throw new CommandFailure(notUnderstood("the launcher does not know this request"));
  return request as ControlRequest;
}

function notUnderstood(message: string): Failure {
  const hint = "use the same version of ottla that started the cluster";
  return { code: "LAUNCHER_OTHER_VERSION", message, hint, exitCode: EXIT.FAILED };
}

/** The first line; rejects when the other end closes before, sends too much or fails. */
function readLine(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    socket.setEncoding("utf8");
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
    socket.on("data", (chunk: string) => {
      text += chunk;
      const end = text.indexOf("\n");
      if (end >= 0) resolve(text.slice(0, end));
      else if (text.length > LINE_BYTES_MAX) socket.destroy();
    });
  });
}

/** Asks the launcher behind this socket. Rejects with a CommandFailure. */
export async function askLauncher(
  path: string,
  request: Omit<ControlRequest, "version">,
  timeoutMs: number,
): Promise<readonly NodeState[]> {
  const socket = dial(path);
  const limit = setTimeout(() => socket.destroy(), timeoutMs);
  try {
    socket.write(`${JSON.stringify({ version: VERSION, ...request })}\n`);
    const answer = JSON.parse(await readLine(socket)) as ControlAnswer;
    if (answer.kind === "failed") throw new CommandFailure(answer.failure);
    return answer.nodes;
  } catch (thrown) {
    if (thrown instanceof CommandFailure) throw thrown;
    throw new CommandFailure({
      code: "LAUNCHER_SILENT",
      message: "the launcher does not answer",
      hint: "is it paused? ottla cluster down and ottla cluster up start everything again",
      exitCode: EXIT.UNREACHABLE,
    });
  } finally {
    clearTimeout(limit);
    socket.destroy();
  }
}
