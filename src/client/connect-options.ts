// What connect() takes: apart from the client, which is loaded only when it is used.
import { aDuration, aListOf, aSignal, aText, type Checks } from "./options.ts";
import type { ConnectOptions } from "./types.ts";

export const CONNECT_CHECKS: Checks<ConnectOptions> = {
  brokers: aListOf(aText, "addresses"),
  clientId: aText,
  connectTimeoutMs: aDuration(),
  signal: aSignal,
};
