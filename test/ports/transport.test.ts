import { createSimHost } from "../../scripts/sim-host.ts";
import { createWebSocketTransport } from "../../src/platform/websocket.ts";
import { SimNetwork } from "../../src/sim/network.ts";
import { createSimTimers, SimWorld } from "../../src/sim/world.ts";
import { describeContract } from "./contract.ts";
import { transportContract } from "./transport.contract.ts";

const host = await createSimHost();

describeContract("MessageTransport", transportContract, [
  {
    name: "websocket",
    onFresh: (run) =>
      run({
        transport: createWebSocketTransport(),
        anyAddress: "127.0.0.1:0",
        deadAddress: "127.0.0.1:1",
        pause: () => new Promise((resolve) => void setTimeout(resolve, 5)),
      }),
  },
  {
    name: "simulated",
    async onFresh(run) {
      const world = new SimWorld({ seed: 13, host });
      const owner = world.startIncarnation("process");
      const network = new SimNetwork(world, { link: { delayMs: 1, bandwidth: 100_000, windowBytes: 1 << 20 } });
      const timers = createSimTimers(world, owner);
      const pause = (): Promise<void> => new Promise((resolve) => void timers.after(5, resolve));
      await world.settle(
        run({ transport: network.messages(owner), anyAddress: "node:0", deadAddress: "node:1", pause }),
      );
    },
  },
]);
