import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { createSimHost } from "../../scripts/sim-host.ts";
import { createFiles } from "../../src/platform/files.ts";
import { createMemoryFiles } from "../../src/platform/memory-files.ts";
import { SimDisk } from "../../src/sim/disk.ts";
import { SimWorld } from "../../src/sim/world.ts";
import { describeContract } from "./contract.ts";
import { filesContract } from "./files.contract.ts";

const host = await createSimHost();

describeContract("Files", filesContract, [
  {
    name: "node:fs",
    async onFresh(run) {
      const directory = await mkdtemp(path.join(tmpdir(), "ottla-files-"));
      try {
        await run({ files: createFiles(), directory });
      } finally {
        await rm(directory, { recursive: true });
      }
    },
  },
  {
    name: "memory",
    async onFresh(run) {
      const files = createMemoryFiles(1 << 24);
      await files.makeDirectory("data/node-1");
      await run({ files, directory: "data/node-1" });
    },
  },
  {
    name: "simulated",
    async onFresh(run) {
      const world = new SimWorld({ seed: 7, host });
      const disk = new SimDisk(world, "disk", {
        latencies: { readMs: 1, writeMs: 1, syncMs: 5, directoryMs: 1 },
        capacityBytes: 1 << 24,
      });
      const files = disk.files(world.startIncarnation("process"));
      await world.settle(
        (async () => {
          await files.makeDirectory("data");
          await run({ files, directory: "data" });
        })(),
      );
    },
  },
]);
