// A folder for the local cluster of each test: what is left running of it is stopped behind the test, and the folder goes.
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach } from "vitest";
import { ensureBuilt, ottla, temporaryFolder } from "./support.ts";

/** Where it is, and where its cluster keeps its data. */
export interface ClusterFolder {
  readonly path: string;
  readonly dataDir: string;
}

/** For all tests of a file. */
export function clusterFolder(): ClusterFolder {
  let folder: ReturnType<typeof temporaryFolder>;
  const dataDir = (): string => join(folder.path, "data");
  beforeAll(ensureBuilt);
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    await ottla(["cluster", "down", "--data-dir", dataDir()]);
    folder.remove();
  });
  return {
    get path() {
      return folder.path;
    },
    get dataDir() {
      return dataDir();
    },
  };
}
