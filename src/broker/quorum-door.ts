// What the handlers of the quorum's apis ask for: it is not there before the data directory is open.
import { OttlaError } from "../model/errors.ts";
import type { Controller } from "./controller/controller.ts";
import type { HostedQuorum } from "./quorum/types.ts";
import type { NodeServices } from "./services.ts";

const NOT_YET = "the broker opens its data directory";

export function quorumOf({ quorum }: NodeServices): HostedQuorum {
  if (quorum === undefined) throw new OttlaError("BROKER_NOT_AVAILABLE", NOT_YET);
  return quorum;
}

export function controllerOf({ controller }: NodeServices): Controller {
  if (controller === undefined) throw new OttlaError("BROKER_NOT_AVAILABLE", NOT_YET);
  return controller;
}
