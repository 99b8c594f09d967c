// Structured logs as NDJSON through pino: ISO time, level as a word, secrets redacted; to a file descriptor or to a file that is
// renamed when it grows past a bound.
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { pino } from "pino";
import type { Logger } from "../ports/logger.ts";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export interface LoggerOptions {
  readonly level?: LogLevel;
  /** A file descriptor (default 2, stderr) or the path of a file to append to. */
  readonly destination?: number | string;
  /** The `node` field of every line. */
  readonly name?: string;
  /** A file is renamed to `<file>.1` before it grows past this. Default 16 MiB. */
  readonly fileBytesMax?: number;
}

const SECRETS = ["password", "token", "secret", "key"];

export function createLogger(options: LoggerOptions = {}): Logger {
  const destination = options.destination ?? 2;
  const stream =
    typeof destination === "number"
      ? new DescriptorStream(destination)
      : new RotatingFile(destination, options.fileBytesMax ?? 16 * 1024 * 1024);
  const root = pino(
    {
      level: options.level ?? "info",
      base: options.name === undefined ? null : { node: options.name },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err, cause: pino.stdSerializers.err },
      redact: { paths: [...SECRETS, ...SECRETS.map((name) => `*.${name}`)], censor: "[redacted]" },
    },
    stream,
  );
  return wrap(root);
}

type PinoLogger = pino.Logger;

function wrap(logger: PinoLogger): Logger {
  return {
    debug: (event, fields) => logger.debug({ event, ...fields }),
    info: (event, fields) => logger.info({ event, ...fields }),
    warn: (event, fields) => logger.warn({ event, ...fields }),
    error: (event, fields) => logger.error({ event, ...fields }),
    child: (fields) => wrap(logger.child({ ...fields })),
  };
}

/** Writes at once and never throws: a closed terminal or a full disk must not stop a broker. */
class DescriptorStream {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(line: string): void {
    tryWrite(this.#fd, line);
  }
}

function tryWrite(fd: number, line: string): void {
  try {
    writeSync(fd, line);
  } catch {
    // Nowhere to say so.
  }
}

/** Appends to a file; when it would grow past the bound it becomes `<file>.1`, replacing an older one. */
class RotatingFile {
  readonly #path: string;
  readonly #bytesMax: number;
  #fd: number;
  #sizeBytes: number;

  constructor(path: string, bytesMax: number) {
    mkdirSync(dirname(path), { recursive: true });
    this.#path = path;
    this.#bytesMax = bytesMax;
    this.#fd = openSync(path, "a");
    this.#sizeBytes = fstatSync(this.#fd).size;
  }

  write(line: string): void {
    const lineBytes = Buffer.byteLength(line);
    if (this.#sizeBytes > 0 && this.#sizeBytes + lineBytes > this.#bytesMax) this.#rotate();
    tryWrite(this.#fd, line);
    this.#sizeBytes += lineBytes;
  }

  #rotate(): void {
    try {
      if (existsSync(this.#path)) renameSync(this.#path, `${this.#path}.1`);
      const fresh = openSync(this.#path, "a");
      closeSync(this.#fd);
      this.#fd = fresh;
      this.#sizeBytes = fstatSync(fresh).size;
    } catch {
      // Keep writing to the old file; try again after as much again.
      this.#sizeBytes = 0;
    }
  }
}
