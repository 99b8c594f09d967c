// A program that the tests run under the preload shim and kill: does the steps of a script one by one and says, in a file that
// no fault touches, how far it came: a byte before and a byte after each. Plain JavaScript: it has to start fast. steps.ts has the types.
import * as fs from "node:fs";

function withFile(path, flags, use) {
  const fd = fs.openSync(path, flags);
  try {
    use(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function write(fd, step) {
  const bytes = Buffer.from(step.bytes, "base64");
  const half = bytes.length >> 1;
  // As files.ts does: pwritev.
  for (let done = 0; done < bytes.length; ) {
    const left = done === 0 ? [bytes.subarray(0, half), bytes.subarray(half)] : [bytes.subarray(done)];
    done += fs.writevSync(fd, left, step.position + done);
  }
}

function failNextSync({ controlFile, failSyncsAt }) {
  const one = Buffer.alloc(8);
  one.writeBigInt64LE(1n);
  withFile(controlFile, "r+", (fd) => fs.writeSync(fd, one, 0, 8, failSyncsAt));
}

function sync(fd, fails) {
  try {
    fs.fdatasyncSync(fd);
  } catch (error) {
    if (!fails) throw error;
  }
}

function run(script, step) {
  const path = script.root + step.path;
  switch (step.kind) {
    case "create":
      return withFile(path, fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_EXCL, () => undefined);
    case "unlink":
      return fs.unlinkSync(path);
    case "makeDirectory":
      return fs.mkdirSync(path);
    case "removeDirectory":
      return fs.rmdirSync(path);
    case "syncDirectory":
      return withFile(path, fs.constants.O_RDONLY, fs.fsyncSync);
    case "write":
      return withFile(path, "r+", (fd) => write(fd, step));
    case "truncate":
      return withFile(path, "r+", (fd) => fs.ftruncateSync(fd, step.sizeBytes));
    case "sync":
      if (step.fails) failNextSync(script);
      return withFile(path, "r+", (fd) => sync(fd, step.fails));
    case "rename":
      return fs.renameSync(path, script.root + step.to);
    default:
      throw new Error(`no step ${step.kind}`);
  }
}

const script = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const progress = fs.openSync(script.progressFile, "w");
for (const step of script.steps) {
  fs.writeSync(progress, "<");
  run(script, step);
  fs.writeSync(progress, ">");
}
// To be killed: a process that ends by itself would be another test.
setInterval(() => undefined, 1000);
