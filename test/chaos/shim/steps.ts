// What the program under the shim (writer.mjs) is told to do.

export type Step =
  | {
      readonly kind: "create" | "unlink" | "makeDirectory" | "removeDirectory" | "syncDirectory";
      readonly path: string;
    }
  | { readonly kind: "write"; readonly path: string; readonly position: number; readonly bytes: string }
  | { readonly kind: "truncate"; readonly path: string; readonly sizeBytes: number }
  | { readonly kind: "sync"; readonly path: string; readonly fails: boolean }
  | { readonly kind: "rename"; readonly path: string; readonly to: string };

export interface Script {
  readonly root: string;
  readonly progressFile: string;
  readonly controlFile: string;
  /** Where in the control file it is that the next sync fails. */
  readonly failSyncsAt: number;
  readonly steps: readonly Step[];
}

/** In scripts bytes are base64. */
export function bytesOf(step: Step & { kind: "write" }): Uint8Array {
  return Buffer.from(step.bytes, "base64");
}
