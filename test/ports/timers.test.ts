import { createSimHost } from "../../scripts/sim-host.ts";
import { createClock } from "../../src/platform/clock.ts";
import { createEntropy } from "../../src/platform/entropy.ts";
import { createTimers } from "../../src/platform/timers.ts";
import { createSimClock, createSimEntropy, createSimTimers, SimWorld } from "../../src/sim/world.ts";
import { describeContract } from "./contract.ts";
import { timersContract } from "./timers.contract.ts";

const host = await createSimHost();

describeContract("Timers, Clock and Entropy", timersContract, [
  {
    name: "host",
    // The timers do not keep a process alive: hold it for them.
    async onFresh(run) {
      const holder = setInterval(() => undefined, 1000);
      await run({ timers: createTimers(), clock: createClock(), entropy: createEntropy() }).finally(() =>
        clearInterval(holder),
      );
    },
  },
  {
    name: "simulated",
    async onFresh(run) {
      const world = new SimWorld({ seed: 11, host });
      const owner = world.startIncarnation("process");
      const timers = createSimTimers(world, owner);
      await world.settle(run({ timers, clock: createSimClock(world, owner), entropy: createSimEntropy(world, owner) }));
    },
  },
]);
