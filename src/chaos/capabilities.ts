// What can be injected on this machine. Each probe really tries, and says why when it cannot.

/** What a fault or a check may need of the machine or of the build. */
export type CapabilityName =
  | "signals"
  | "compiler"
  | "preload"
  | "network namespaces"
  | "tmpfs"
  | "loop file system"
  | "file size limit"
  | "descriptor limit"
  | "failpoints"
  | "planted bugs";

export interface Capability {
  readonly name: CapabilityName;
  /** What it is for, for people. */
  readonly says: string;
  /** Undefined: it is there. */
  readonly missing: string | undefined;
}

export type Capabilities = ReadonlyMap<CapabilityName, Capability>;
