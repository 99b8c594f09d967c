// One launcher per directory: the directory is made, locked and found unused, or the start is refused with who uses it.
import { accessSync, constants, mkdirSync } from "node:fs";
import { EXIT } from "../../model/exit-codes.ts";
import { lockDirectory } from "../../platform/lock.ts";
import { unusable } from "../data-dir.ts";
import { CommandFailure } from "../failure.ts";
import { liveState } from "../state-file.ts";

export interface Claim {
  release(): Promise<void>;
}

/** Makes the cluster's directory; refuses when a cluster of it runs already or it cannot be written. */
export function checkDirectory(dataDir: string): void {
  const running = liveState(dataDir);
  if (running !== undefined) {
    const addresses = running.nodes.map((node) => node.address).join(", ");
    throw alreadyRunning(dataDir, `launcher pid ${running.launcher.pid}, ${addresses}`);
  }
  try {
    mkdirSync(dataDir, { recursive: true });
    accessSync(dataDir, constants.W_OK);
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** The lock decides between two launchers that start at the same time; a dead one's is taken over. */
export async function claimDirectory(dataDir: string): Promise<Claim> {
  checkDirectory(dataDir);
  const outcome = await lockDirectory(dataDir).catch((error: unknown) => {
    throw unusable(dataDir, error);
  });
  if (outcome.kind === "held") throw alreadyRunning(dataDir, `launcher pid ${outcome.ownerPid}`);
  return outcome;
}

function alreadyRunning(dataDir: string, who: string): CommandFailure {
  return new CommandFailure({
    code: "ALREADY_RUNNING",
    message: `the cluster in ${dataDir} runs already (${who})`,
    hint: "ottla cluster down stops it; --data-dir names another directory",
    exitCode: EXIT.FAILED,
  });
}
