// Loaded into the node under attack before its own code (--import): a collection of garbage on SIGUSR2, so that memory is measured and not what V8 has not
// tidied up yet; and the planted faults that ATTACK_PLANT names, so that a run shows that its alarms go off.
import { createRequire } from "node:module";
import { setTimeout } from "node:timers";

process.on("SIGUSR2", () => {
  for (let round = 0; round < 4; round++) globalThis.gc?.();
  setTimeout(() => globalThis.gc?.(), 50);
});

const { ATTACK_PLANT, ATTACK_DIST: dist } = process.env;
if (ATTACK_PLANT !== undefined) {
  const plants = new Set(ATTACK_PLANT.split(","));
  const { WebSocket } = createRequire(dist)("ws");
  const { emit, send } = WebSocket.prototype;
  const sockets = new Set();
  const kept = [];
  let messages = 0;
  const STRIKE_AT = 500;

  const never = new Int32Array(new SharedArrayBuffer(4));
  /** Asleep: what a process waits for a processor counts as the machine's, and others have work for it. */
  const stall = (ms) => Atomics.wait(never, 0, 0, ms);

  /** After so many messages, so that start-up and warm-up are as ever. */
  const strike = (count) => {
    if (plants.has("crash") && count === STRIKE_AT) throw new Error("planted crash");
    if (plants.has("hang") && count === STRIKE_AT) stall(2_500);
    if (plants.has("lag")) stall(4);
    if (plants.has("leak")) kept.push(Buffer.alloc(192 * 1024, 1));
    if (plants.has("hoard")) kept.push(new Array(16_000).fill(0.5));
    if (plants.has("cut") && count === STRIKE_AT) for (const socket of sockets) socket.terminate();
  };

  WebSocket.prototype.emit = function planted(name, ...rest) {
    if (name === "message") {
      sockets.add(this);
      this.once("close", () => sockets.delete(this));
      strike(++messages);
    }
    return emit.call(this, name, ...rest);
  };
  WebSocket.prototype.send = function planted(data, ...rest) {
    if (plants.has("garble") && messages > STRIKE_AT && data.length > 20) data[data.length - 1] = 0xc1;
    return send.call(this, data, ...rest);
  };
}
