// Loaded into the node under attack before its own code (--import): a collection of garbage on SIGUSR2, so that memory is measured and not what V8 has not
// tidied up yet; and, when ATTACK_PLANT names one, a planted fault, so that a run shows that its alarms go off.
import { createRequire } from "node:module";
import { setTimeout } from "node:timers";

process.on("SIGUSR2", () => {
  for (let round = 0; round < 4; round++) globalThis.gc?.();
  setTimeout(() => globalThis.gc?.(), 50);
});

const { ATTACK_PLANT: plant, ATTACK_DIST: dist } = process.env;
if (plant !== undefined) {
  const { WebSocket } = createRequire(dist)("ws");
  const { emit, send } = WebSocket.prototype;
  const sockets = new Set();
  const kept = [];
  let messages = 0;
  const STRIKE_AT = 1_500;

  const spin = (ms) => {
    const startMs = performance.now();
    while (performance.now() - startMs < ms);
  };

  /** After so many messages, so that start-up and warm-up are as ever. */
  const strike = (count) => {
    if (plant === "crash" && count === STRIKE_AT) throw new Error("planted crash");
    if (plant === "hang" && count === STRIKE_AT) spin(2_500);
    if (plant === "lag") spin(4);
    if (plant === "leak") kept.push(Buffer.alloc(64 * 1024, 1));
    if (plant === "cut" && count === STRIKE_AT) for (const socket of sockets) socket.terminate();
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
    if (plant === "garble" && messages > STRIKE_AT && data.length > 20) data[data.length - 1] = 0xc1;
    return send.call(this, data, ...rest);
  };
}
