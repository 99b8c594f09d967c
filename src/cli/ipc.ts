// What a launcher and the process of a node tell each other, and what a launcher in the background tells the command that started it.
import type { BrokerConfig } from "../model/config.ts";
import type { Failure } from "./failure.ts";

export type ToNode =
  | {
      readonly kind: "start";
      readonly config: BrokerConfig;
      readonly logFile: string;
      readonly logBytesMax: number;
      readonly verbosity: number;
    }
  | { readonly kind: "stop" };

export type FromNode =
  /** Sent first: the process listens now and waits for "start". */
  | { readonly kind: "hello" }
  | { readonly kind: "ready"; readonly address: string; readonly clusterId: string; readonly startMs: number }
  | { readonly kind: "failed"; readonly failure: Failure };

export type FromLauncher =
  /** Some nodes may have failed while the others serve. */
  | {
      readonly kind: "up";
      readonly lines: readonly string[];
      readonly state: unknown;
      readonly failures: readonly NodeFault[];
    }
  | ({ readonly kind: "failed" } & NodeFault);

/** Why a node did not start or ended, and the last lines of its log. */
export interface NodeFault {
  readonly failure: Failure;
  readonly details: readonly string[];
}
