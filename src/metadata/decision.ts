// What a decision of the controller is: the records of one command, or why there are none.
import type { ErrorName } from "../model/errors.ts";
import type { MetadataRecord } from "./records.ts";

export type Decision =
  /** No records: everything is as wished already. */
  | { readonly kind: "records"; readonly records: readonly MetadataRecord[] }
  | { readonly kind: "refused"; readonly error: ErrorName; readonly message: string };

export const refused = (error: ErrorName, message: string): Decision => ({ kind: "refused", error, message });

export const accepted = (...records: readonly MetadataRecord[]): Decision => ({ kind: "records", records });
